// What goes wrong with messages of unknown size, and harms nothing else: no memory for the payload, too little room for
// the metadata, a message that another call has sent, wrong arguments. Each time the sender's call ends, and the
// message after that comes as it was sent.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 2 --relinked
// launch: -n 2 --gpus 1 --relinked
// test-timeout: 60
// clang-format on
#include <algorithm>

#include "content.hpp"

using namespace message_test;

namespace {

constexpr int kTag = 3;
MPI_Comm comm = MPI_COMM_NULL;
std::uint64_t next = 5000;

Message made(std::size_t metadata_bytes, std::size_t bytes, gpu::Kind kind) {
    Message message;
    message.number = ++next;
    message.metadata_bytes = metadata_bytes;
    message.bytes = bytes;
    message.kind = has_gpus ? kind : gpu::Kind::kHost;
    return message;
}

gpu::Kind here(gpu::Kind kind) {
    return has_gpus ? kind : gpu::Kind::kHost;
}

// The one behind: the stream is in order.
void next_is_good(const std::string& what) {
    const Message message = made(20, 70000, gpu::Kind::kDevice);
    if (rank == 0)
        check(send(message, 1, kTag, comm) == MPI_SUCCESS, what + ": the next send");
    else
        receive(here(gpu::Kind::kDevice), 0, kTag, comm).is(message, "after " + what);
}

void no_memory() {
    for (const gpu::Kind kind : {gpu::Kind::kHost, gpu::Kind::kDevice})
        for (const std::size_t bytes :
             {std::size_t{1}, std::size_t{3000}, std::size_t{5000}, std::size_t{80000}, std::size_t{40000000}}) {
            const Message message = made(30, bytes, kind);
            const std::string what = "refused " + message.text();
            if (rank == 0) {
                check(send(message, 1, kTag, comm) == MPI_SUCCESS, what + ": the send");
            } else {
                const Received got = receive(gpu::Kind::kHost, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, true, 10);
                check(got.error_class() == MPI_ERR_NO_MEM, what + ": " + got.text());
                check(got.text().find("MPIX_Recv_message on rank ") != std::string::npos, what + ": " + got.text());
                check(got.payload == nullptr && got.bytes == static_cast<MPI_Count>(bytes), what + ": what is left");
                check(got.metadata_bytes == 30 && got.giver.metadata == message.metadata(), what + ": metadata");
                status_is(got, 0, kTag, what);
            }
            next_is_good(what);
        }
    const Message message = made(30, 100, gpu::Kind::kHost);  // no function at all
    if (rank == 0) {
        check(send(message, 1, kTag, comm) == MPI_SUCCESS, "send of " + message.text());
    } else {
        Received got;
        got.code = MPIX_Recv_message(nullptr, 0, &got.metadata_bytes, nullptr, nullptr, &got.payload, &got.bytes, 0,
                                     kTag, comm, MPI_STATUS_IGNORE);
        check(got.error_class() == MPI_ERR_NO_MEM, "without a function: " + got.text());
    }
    next_is_good("no function");
}

void little_room() {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{500}, std::size_t{90000}}) {
        const Message message = made(100, bytes, gpu::Kind::kDevice);
        if (rank == 0) {
            check(send(message, 1, kTag, comm) == MPI_SUCCESS, "send of " + message.text());
        } else {
            const Received got = receive(here(gpu::Kind::kManaged), 0, kTag, comm, false, 60);
            const Bytes sent = message.metadata();
            check(got.error_class() == MPI_ERR_TRUNCATE, "little room: " + got.text());
            check(got.metadata_bytes == 100 && std::equal(sent.begin(), sent.begin() + 60, got.metadata.begin()),
                  "little room: the metadata that had room");
            check(got.metadata[60] == std::byte{0}, "little room: written beyond it");
            got.has_payload(message.payload(), bytes == 0 ? -1 : message.where(), "little room");
        }
        next_is_good("little room");
    }
}

// Messages of MPI_Send's: an error, and the program has them all the same.
void ordinary(gpu::Kind kind, std::size_t bytes) {
    const Bytes content = noise(bytes, bytes);
    const std::string what =
        "ordinary message of " + std::to_string(bytes) + " bytes of " + gpu::name(kind) + " memory";
    if (rank == 0) {
        const gpu::Memory memory(here(kind), content);
        MPI_Send(memory.address(), static_cast<int>(bytes), MPI_BYTE, 1, kTag, comm);
    } else {
        const Received got = receive(here(gpu::Kind::kDevice), 0, MPI_ANY_TAG, comm);
        check(got.error_class() == MPI_ERR_TYPE, what + ": " + got.text());
        check(got.metadata_bytes == 0, what + ": metadata");
        got.has_payload(content, bytes == 0 ? -1 : MPIX_MESSAGE_HOST, what);
        status_is(got, 0, kTag, what);
    }
    next_is_good(what);
}

// The first part of one of ours, changed: it is an ordinary message.
void damaged() {
    Bytes first(110);
    const Message message = made(30, 40, gpu::Kind::kHost);
    if (rank == 0) {
        check(send(message, 1, kTag, comm) == MPI_SUCCESS, "send of " + message.text());
        MPI_Recv(first.data(), 110, MPI_BYTE, 1, kTag, comm, MPI_STATUS_IGNORE);
        receive(gpu::Kind::kHost, 1, kTag, comm).is(message, "sent back as it was");
        MPI_Send(first.data(), 109, MPI_BYTE, 1, kTag, comm);
        first[20] ^= std::byte{4};
        MPI_Send(first.data(), 110, MPI_BYTE, 1, kTag, comm);
    } else {
        MPI_Recv(first.data(), 110, MPI_BYTE, 0, kTag, comm, MPI_STATUS_IGNORE);
        MPI_Send(first.data(), 110, MPI_BYTE, 0, kTag, comm);
        MPI_Send(first.data(), 110, MPI_BYTE, 0, kTag, comm);
        check(receive(gpu::Kind::kHost, 0, kTag, comm).error_class() == MPI_ERR_TYPE, "one byte is missing");
        check(receive(gpu::Kind::kHost, 0, kTag, comm).error_class() == MPI_ERR_TYPE, "one bit is wrong");
    }
    next_is_good("damaged ones");
}

int class_of(int code) {
    int found = -1;
    MPI_Error_class(code, &found);
    return found;
}

void arguments() {
    char byte = 1;
    int metadata_bytes = 0;
    void* payload = nullptr;
    MPI_Count bytes = 0;
    const int to = 1 - rank;
    check(class_of(MPIX_Send_message(&byte, -1, nullptr, 0, to, kTag, comm)) == MPI_ERR_COUNT, "-1 of metadata");
    check(
        class_of(MPIX_Send_message(&byte, MPIX_MESSAGE_METADATA_MAX + 1, nullptr, 0, to, kTag, comm)) == MPI_ERR_COUNT,
        "too many metadata");
    check(class_of(MPIX_Send_message(nullptr, 1, nullptr, 0, to, kTag, comm)) == MPI_ERR_BUFFER, "metadata at NULL");
    check(class_of(MPIX_Send_message(nullptr, 0, nullptr, 1, to, kTag, comm)) == MPI_ERR_BUFFER, "payload at NULL");
    check(class_of(MPIX_Send_message(nullptr, 0, &byte, -1, to, kTag, comm)) == MPI_ERR_COUNT, "payload of -1");
    check(class_of(MPIX_Send_message(nullptr, 0, nullptr, 0, 2, kTag, comm)) == MPI_ERR_RANK, "to rank 2");
    check(class_of(MPIX_Send_message(nullptr, 0, nullptr, 0, to, -5, comm)) == MPI_ERR_TAG, "tag -5");
    check(class_of(MPIX_Recv_message(nullptr, 0, nullptr, nullptr, nullptr, &payload, &bytes, to, kTag, comm,
                                     MPI_STATUS_IGNORE)) == MPI_ERR_ARG,
          "nowhere to say how many metadata");
    check(class_of(MPIX_Recv_message(nullptr, 4, &metadata_bytes, nullptr, nullptr, &payload, &bytes, to, kTag, comm,
                                     MPI_STATUS_IGNORE)) == MPI_ERR_BUFFER,
          "room for metadata at NULL");
    check(class_of(MPIX_Recv_message(nullptr, 0, &metadata_bytes, nullptr, nullptr, &payload, &bytes, 2, kTag, comm,
                                     MPI_STATUS_IGNORE)) == MPI_ERR_RANK,
          "from rank 2");
    next_is_good("wrong arguments");
}

void nobody() {
    check(send(Message(4), MPI_PROC_NULL, kTag, comm) == MPI_SUCCESS, "to nobody");
    const Received got = receive(gpu::Kind::kHost, MPI_PROC_NULL, kTag, comm);
    check(got.code == MPI_SUCCESS && got.metadata_bytes == 0, "from nobody");
    got.has_payload({}, -1, "from nobody");
    status_is(got, MPI_PROC_NULL, MPI_ANY_TAG, "from nobody");
}

// Metadata may be on a device too.
void metadata_on_device() {
    const Bytes content = noise(99, 300);
    const gpu::Memory metadata(here(gpu::Kind::kDevice), rank == 0 ? content : Bytes(300));
    int metadata_bytes = -1;
    void* payload = nullptr;
    MPI_Count bytes = -1;
    if (rank == 0)
        MPIX_Send_message(metadata.address(), 300, nullptr, 0, 1, kTag, comm);
    else
        MPIX_Recv_message(metadata.address(), 300, &metadata_bytes, nullptr, nullptr, &payload, &bytes, 0, kTag, comm,
                          MPI_STATUS_IGNORE);
    check(metadata.read() == content && (rank == 0 || metadata_bytes == 300), "metadata in device memory");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    begin();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    no_memory();
    little_room();
    for (const std::size_t bytes : {0, 4, 40, 101, 3840, 3841, 70000, 3000000}) {
        ordinary(gpu::Kind::kHost, bytes);
        ordinary(gpu::Kind::kDevice, bytes);
    }
    damaged();
    arguments();
    nobody();
    metadata_on_device();
    MPI_Comm_free(&comm);
    return end();
}
