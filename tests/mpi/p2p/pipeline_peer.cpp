// The staged pipeline with a peer that is plain MPI, chunk by chunk: what is under way at the same time, and what
// becomes of it when a transfer is given up.
// clang-format off
// What the program has put on the default stream is waited for, by SWITCHYARD_SYNC=legacy.
// launch: -n 2 --gpus 2 --plain -x SWITCHYARD_SYNC=legacy
// launch: -n 2 --gpus 1 --plain -x SWITCHYARD_SYNC=legacy -x VGPU_JITTER=3
// launch: -n 2 --gpus 2 --plain -x SWITCHYARD_SYNC=legacy -x SWITCHYARD_PINNED_POOL=4096 -- pageable
// clang-format on
#include <sys/mman.h>

#include <atomic>

#include "transfers.hpp"

// Every piece of staging memory begins as one mapping. Linked with --wrap=mmap.
static std::atomic<int> mappings{0};
extern "C" void* __real_mmap(void*, std::size_t, int, int, int, off_t);
extern "C" void* __wrap_mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
    ++mappings;
    return __real_mmap(address, bytes, protection, flags, file, offset);
}

namespace {

using namespace transfers;
using swy::staging::receive_chunks;
using swy::staging::send_chunks;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kChunk = std::size_t{64} << 10;  // beyond Open MPI's eager limit: a send needs its receive
constexpr int kChunks = 9;
constexpr std::size_t kBytes = kChunk * (kChunks - 1) + 1000;
constexpr int kTag = 5;

int length_of(int chunk) {
    return static_cast<int>(std::min(kChunk, kBytes - static_cast<std::size_t>(chunk) * kChunk));
}

// The other rank has come to the same point; meanwhile it steps what it has.
void meet(Transfer* transfer = nullptr) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        if (transfer != nullptr)
            transfer->step();
        std::this_thread::yield();
    }
}

// Chunks that the sender has sent although none has been received.
std::vector<MPI_Message> matched_ahead(const Job& job) {
    std::vector<MPI_Message> messages;
    auto end = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < end) {
        int found = 0;
        MPI_Message message;
        MPI_Improbe(1 - job.rank, kTag, job.chunks, &found, &message, MPI_STATUS_IGNORE);
        if (!found)
            continue;
        messages.push_back(message);
        if (messages.size() == 4)  // all that there are buffers for: nothing more comes now
            end = std::min(end, Clock::now() + milliseconds(200));
    }
    return messages;
}

void receive_plainly(const Job& job, std::vector<MPI_Message> matched, int chunks, int salt, int tag = kTag) {
    std::vector<std::byte> chunk(kChunk);
    for (int i = 0; i < chunks; ++i) {
        if (static_cast<std::size_t>(i) < matched.size())
            MPI_Mrecv(chunk.data(), length_of(i), MPI_BYTE, &matched[static_cast<std::size_t>(i)], MPI_STATUS_IGNORE);
        else
            MPI_Recv(chunk.data(), length_of(i), MPI_BYTE, 1 - job.rank, tag, job.chunks, MPI_STATUS_IGNORE);
        bool right = true;
        for (std::size_t b = 0; b < static_cast<std::size_t>(length_of(i)); ++b)
            right = right && chunk[b] == value(static_cast<std::size_t>(i) * kChunk + b, salt);
        expect(right, "chunk " + std::to_string(i) + " has wrong data");
    }
}

gpu::Memory filled(gpu::Kind kind, int salt) {
    return gpu::Memory(kind, pattern(kBytes, salt));
}

void expect_nothing_left(const Job& job, const char* what) {
    meet();
    int found = 0;
    for (int i = 0; i < 100 && !found; ++i)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, job.chunks, &found, MPI_STATUS_IGNORE);
    expect(!found, std::string(what) + ": a message has been left behind");
    meet();  // before the next case's messages come
}

void Further_chunks_are_copied_and_sent_while_the_first_has_not_been_received(const Job& job) {
    if (job.rank == 0) {
        gpu::Memory memory = filled(gpu::Kind::kDevice, 1);
        const auto sending = send_chunks(payload_at(memory.at(0), kBytes, MPI_BYTE), kBytes, job.route(kTag));
        finish({sending.get()}, "sending to plain MPI");
        expect(sending->failure().empty(), sending->failure());
    } else {
        std::vector<MPI_Message> ahead = matched_ahead(job);
        expect(ahead.size() == 4, std::to_string(ahead.size()) + " chunks under way, not 4");
        receive_plainly(job, ahead, kChunks, 1);
    }
    expect_nothing_left(job, "sending");
}

std::atomic<bool> gate_open{false};
void wait_at_gate(void*) {
    while (!gate_open)
        std::this_thread::sleep_for(milliseconds(1));
}

// What the program has queued for its buffer before the call comes first, and no step waits for it.
void Chunks_arrive_ahead_of_the_copies_and_these_wait_for_the_program(const Job& job) {
    if (job.rank == 0) {
        gpu::Driver& driver = gpu::Driver::get();
        gpu::Memory memory = filled(gpu::Kind::kDevice, 8);
        gate_open = false;
        gpu::Driver::check("cuLaunchHostFunc", driver.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(
                                                   nullptr, wait_at_gate, nullptr));
        gpu::Driver::check("cuMemsetD8Async", driver.call<int(void*, unsigned char, std::size_t, void*)>(
                                                  "cuMemsetD8Async")(memory.at(0), 0xee, kBytes, nullptr));
        const auto receiving = receive_chunks(payload_at(memory.at(0), kBytes, MPI_BYTE), kBytes, job.route(kTag));
        meet(receiving.get());
        step_for(*receiving, milliseconds(50));
        expect(!receiving->done(), "done before the program's own work is");
        gate_open = true;
        finish({receiving.get()}, "receiving from plain MPI");
        expect(receiving->failure().empty(), receiving->failure());
        expect(memory.read() == pattern(kBytes, 2), "received before the program's own work on the buffer");
    } else {
        const std::vector<std::byte> content = pattern(kBytes, 2);
        std::vector<MPI_Request> requests(kChunks);
        for (int i = 0; i < kChunks; ++i)
            MPI_Issend(&content[static_cast<std::size_t>(i) * kChunk], length_of(i), MPI_BYTE, 0, kTag, job.chunks,
                       &requests[static_cast<std::size_t>(i)]);
        MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
        int fifth = 0;
        for (const auto end = Clock::now() + milliseconds(100); Clock::now() < end;)
            MPI_Test(&requests[4], &fifth, MPI_STATUS_IGNORE);
        expect(!fifth, "a fifth chunk has been received, without a buffer for it");
        meet();
        MPI_Waitall(kChunks, requests.data(), MPI_STATUSES_IGNORE);
    }
    expect_nothing_left(job, "receiving");
}

void A_receive_that_is_given_up_takes_no_later_message(const Job& job, gpu::Kind kind) {
    if (job.rank == 0) {
        gpu::Memory memory = filled(kind, 3);
        const auto receiving = receive_chunks(payload_at(memory.at(0), kBytes, MPI_BYTE), kBytes, job.route(kTag));
        step_for(*receiving, milliseconds(20));
        meet(receiving.get());  // two chunks have been sent, and have arrived
        step_for(*receiving, milliseconds(20));
        receiving->give_up("the peer has failed");
        finish({receiving.get()}, "giving up a receive");
        expect(receiving->failure() == "the peer has failed", "wrong failure: " + receiving->failure());
        meet();
        std::vector<std::byte> later(kChunk), got = memory.read(), old = pattern(kBytes, 3);
        MPI_Recv(later.data(), kChunk, MPI_BYTE, 1, kTag, job.chunks, MPI_STATUS_IGNORE);
        expect(later == pattern(kChunk, 6), "a later message is not what was sent");
        expect(std::equal(got.begin() + 2 * kChunk, got.end(), old.begin() + 2 * kChunk),
               "memory changed for which nothing has come");
    } else {
        const std::vector<std::byte> content = pattern(kBytes, 4), later = pattern(kChunk, 6);
        for (int i = 0; i < 2; ++i)
            MPI_Ssend(&content[static_cast<std::size_t>(i) * kChunk], kChunk, MPI_BYTE, 0, kTag, job.chunks);
        meet();
        meet();
        MPI_Send(later.data(), kChunk, MPI_BYTE, 0, kTag, job.chunks);
    }
    expect_nothing_left(job, "giving up a receive");
}

// MPI cannot take a send back: the host memory that it sends from is in use until the receiver has it.
void A_send_from_host_memory_that_is_given_up_ends_when_MPI_is_done_with_it(const Job& job) {
    if (job.rank == 0) {
        gpu::Memory memory = filled(gpu::Kind::kHost, 5);
        const auto sending = send_chunks(payload_at(memory.at(0), kBytes, MPI_BYTE), kBytes, job.route(kTag));
        meet(sending.get());  // the peer has seen four chunks, and received none
        sending->give_up("the peer has failed");
        step_for(*sending, milliseconds(50));
        expect(!sending->done(), "done while MPI sends from the program's memory");
        meet(sending.get());
        finish({sending.get()}, "giving up a send");
        expect(sending->failure() == "the peer has failed", "wrong failure: " + sending->failure());
    } else {
        std::vector<MPI_Message> ahead = matched_ahead(job);
        meet();
        meet();
        receive_plainly(job, ahead, static_cast<int>(ahead.size()), 5);
    }
    expect_nothing_left(job, "giving up a send");
}

// Device memory is free at once. The buffers are not, and the next transfer has others.
void A_send_from_device_memory_that_is_given_up_ends_when_the_copies_have(const Job& job) {
    if (job.rank == 0) {
        gpu::Memory memory = filled(gpu::Kind::kDevice, 5);
        const Payload payload = payload_at(memory.at(0), kBytes, MPI_BYTE);
        auto sending = send_chunks(payload, kBytes, job.route(kTag));
        meet(sending.get());  // the peer has seen four chunks, and received none
        sending->give_up("the peer has failed");
        finish({sending.get()}, "giving up a send");
        expect(sending->failure() == "the peer has failed", "wrong failure: " + sending->failure());
        memory.write(pattern(kBytes, 9));
        sending = send_chunks(payload, kBytes, job.route(kTag + 1));
        step_for(*sending, milliseconds(50));
        meet(sending.get());
        finish({sending.get()}, "sending after a send that was given up");
    } else {
        const std::vector<MPI_Message> ahead = matched_ahead(job);
        meet();
        meet();
        receive_plainly(job, ahead, static_cast<int>(ahead.size()), 5);
        receive_plainly(job, {}, kChunks, 9, kTag + 1);
    }
    expect_nothing_left(job, "sending after a send that was given up");
}

void Buffers_are_used_again(const Job& job) {
    gpu::Memory send = filled(gpu::Kind::kDevice, 1), receive = filled(gpu::Kind::kManaged, 2);
    const auto both = [&](std::size_t bytes) {
        const auto receiving = receive_chunks(payload_at(receive.at(0), kBytes, MPI_BYTE), bytes, job.route(kTag));
        const auto sending = send_chunks(payload_at(send.at(0), kBytes, MPI_BYTE), bytes, job.route(kTag));
        finish({sending.get(), receiving.get()}, "exchange");
    };
    both(kBytes);
    const int before = mappings;
    expect(before > 0, "the test does not see mappings");
    for (int i = 0; i < 20; ++i)
        both(kBytes - static_cast<std::size_t>(i) * 1000);
    expect(mappings == before, std::to_string(mappings - before) + " buffers made after the first exchange");
}

}  // namespace

int main(int argc, char** argv) {
    Job job(&argc, &argv);
    Job::set_chunk(kChunk);
    Further_chunks_are_copied_and_sent_while_the_first_has_not_been_received(job);
    Chunks_arrive_ahead_of_the_copies_and_these_wait_for_the_program(job);
    for (gpu::Kind kind : {gpu::Kind::kDevice, gpu::Kind::kHost})
        A_receive_that_is_given_up_takes_no_later_message(job, kind);
    A_send_from_host_memory_that_is_given_up_ends_when_MPI_is_done_with_it(job);
    A_send_from_device_memory_that_is_given_up_ends_when_the_copies_have(job);
    if (argc == 1)  // pageable memory is not pooled
        Buffers_are_used_again(job);
    return failures > 0 ? 1 : 0;
}
