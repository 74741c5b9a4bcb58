// Messages of unknown size as the tests draw them: what is in one follows from a number, so that whoever receives it
// knows what must have come. Test programs only.
#pragma once

#include <mpi.h>
#include <mpix_switchyard.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace message_test {

using Bytes = std::vector<std::byte>;
using Dice = std::mt19937_64;

inline std::atomic<int> failures{0};
inline int rank = 0, size = 0;
inline bool has_gpus = false;

inline void fail(const std::string& what) {
    std::fprintf(stderr, "rank %d: FAILED: %s\n", rank, what.c_str());
    ++failures;
}
inline void check(bool good, const std::string& what) {
    if (!good)
        fail(what);
}

inline Bytes noise(std::uint64_t number, std::size_t bytes) {
    Bytes content(bytes);
    std::uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
    for (std::byte& byte : content) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        byte = static_cast<std::byte>(state >> 56);
    }
    return content;
}

// A number that is drawn, and what follows from it.
struct Message {
    std::uint64_t number = 0;
    std::size_t metadata_bytes = 0, bytes = 0;
    gpu::Kind kind = gpu::Kind::kHost;

    Message() = default;
    explicit Message(std::uint64_t drawn, std::size_t most = 3u << 20) : number(drawn) {
        Dice dice(drawn);
        // 61 makes a first part as long as an envelope of Switchyard's.
        constexpr std::size_t kMetadata[] = {
            8, 9, 40, 61, 64, 1000, MPIX_MESSAGE_METADATA_MAX - 1, MPIX_MESSAGE_METADATA_MAX};
        constexpr std::size_t kBytes[] = {0, 0, 1, 61, 1752, 1753, 3800, 4096, 65535, 65536, 65537, 300000};
        metadata_bytes = kMetadata[dice() % std::size(kMetadata)];
        const std::size_t pick = dice() % (std::size(kBytes) + 3);
        bytes = pick < std::size(kBytes) ? kBytes[pick] : dice() % most;
        kind = draw_kind(dice);
    }
    static gpu::Kind draw_kind(Dice& dice) {
        const std::uint64_t pick = dice();
        return has_gpus ? gpu::kKinds[pick % std::size(gpu::kKinds)] : gpu::Kind::kHost;
    }

    // Begins with the number itself, where there is room for it.
    Bytes metadata() const {
        Bytes content = noise(number ^ 1, metadata_bytes);
        if (metadata_bytes >= sizeof number)
            std::memcpy(content.data(), &number, sizeof number);
        return content;
    }
    Bytes payload() const { return noise(number ^ 2, bytes); }
    int where() const {
        if (bytes == 0 || kind == gpu::Kind::kHost || kind == gpu::Kind::kPinned)
            return MPIX_MESSAGE_HOST;
        return kind == gpu::Kind::kDevice ? MPIX_MESSAGE_DEVICE : MPIX_MESSAGE_MANAGED;
    }
    std::string text() const {
        return "message " + std::to_string(number) + " (" + std::to_string(metadata_bytes) + " bytes of metadata, " +
               std::to_string(bytes) + " of " + gpu::name(kind) + " memory)";
    }
};

// The receiver's memory: of some kind, or none.
struct Giver {
    gpu::Kind kind = gpu::Kind::kHost;
    bool refuses = false;
    int calls = 0, where = -1;
    Bytes metadata;
    std::unique_ptr<gpu::Memory> memory;

    static void* allocate(MPI_Count bytes, int where, const void* metadata, int metadata_bytes, void* state) {
        auto& self = *static_cast<Giver*>(state);
        ++self.calls;
        self.where = where;
        const auto* first = static_cast<const std::byte*>(metadata);
        self.metadata.assign(first, first + metadata_bytes);
        if (self.refuses)
            return nullptr;
        self.memory = std::make_unique<gpu::Memory>(self.kind, static_cast<std::size_t>(bytes));
        return self.memory->address();
    }
};

// What has come.
struct Received {
    int code = MPI_SUCCESS, metadata_bytes = -1;
    Bytes metadata = Bytes(MPIX_MESSAGE_METADATA_MAX);
    void* payload = &failures;
    MPI_Count bytes = -1;
    MPI_Status status{};
    Giver giver;

    int error_class() const {
        int found = MPI_SUCCESS;
        MPI_Error_class(code, &found);
        return found;
    }
    std::string text() const {
        char words[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(code, words, &length);
        return words;
    }
    void is(const Message& message, const std::string& how) const {
        const std::string what = how + ": " + message.text() + " into " + gpu::name(giver.kind) + " memory";
        check(code == MPI_SUCCESS, what + ": " + text());
        check(metadata_bytes == static_cast<int>(message.metadata_bytes),
              what + ": " + std::to_string(metadata_bytes) + " bytes of metadata");
        const Bytes got(metadata.begin(), metadata.begin() + static_cast<long>(message.metadata_bytes));
        check(got == message.metadata(), what + ": other metadata");
        has_payload(message.payload(), message.bytes == 0 ? -1 : message.where(), what);
        check(message.bytes == 0 || giver.metadata == message.metadata(), what + ": other metadata for the allocator");
    }
    void has_payload(const Bytes& wanted, int where, const std::string& what) const {
        check(bytes == static_cast<MPI_Count>(wanted.size()), what + ": " + std::to_string(bytes) + " bytes");
        check(giver.calls == (wanted.empty() ? 0 : 1),
              what + ": memory asked for " + std::to_string(giver.calls) + " times");
        check(giver.where == where, what + ": where " + std::to_string(giver.where));
        check(payload == (giver.memory ? giver.memory->address() : nullptr), what + ": another address");
        if (giver.memory)
            check(giver.memory->read() == wanted, what + ": other data");
    }
};

inline int send(const Message& message, int to, int tag, MPI_Comm comm) {
    const Bytes metadata = message.metadata();
    const gpu::Memory memory(message.kind, message.payload());
    return MPIX_Send_message(metadata.data(), static_cast<int>(metadata.size()),
                             message.bytes == 0 ? nullptr : memory.address(), static_cast<MPI_Count>(message.bytes), to,
                             tag, comm);
}

inline Received receive(gpu::Kind kind, int from, int tag, MPI_Comm comm, bool refuses = false,
                        int room = MPIX_MESSAGE_METADATA_MAX) {
    Received got;
    got.giver.kind = kind;
    got.giver.refuses = refuses;
    got.code = MPIX_Recv_message(got.metadata.data(), room, &got.metadata_bytes, Giver::allocate, &got.giver,
                                 &got.payload, &got.bytes, from, tag, comm, &got.status);
    return got;
}

inline void status_is(const Received& got, int source, int tag, const std::string& what) {
    MPI_Count bytes = -1;
    MPI_Get_elements_x(&got.status, MPI_BYTE, &bytes);
    check(got.status.MPI_SOURCE == source && got.status.MPI_TAG == tag && bytes == got.bytes,
          what + ": status of rank " + std::to_string(got.status.MPI_SOURCE) + ", tag " +
              std::to_string(got.status.MPI_TAG) + ", " + std::to_string(bytes) + " bytes");
}

// MPI is up, and the process has its device where there are any.
inline void begin() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    has_gpus = std::getenv("VGPU_COUNT") != nullptr;
    if (has_gpus)
        gpu::Driver::get().use(rank % gpu::Driver::get().devices);
}

inline int end() {
    int mine = failures, anywhere = 0;
    MPI_Allreduce(&mine, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}

}  // namespace message_test
