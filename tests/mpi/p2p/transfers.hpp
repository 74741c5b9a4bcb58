// Transfers driven by hand, for tests of what carries a payload: these programs are linked with the library's inside
// and run without the shared one (--plain). Test programs only.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../gpu.hpp"
#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "progress/wait.hpp"
#include "settings/settings.hpp"
#include "staging/pipeline.hpp"

namespace transfers {

using swy::pack::Payload;
using swy::staging::Transfer;

inline int failures = 0;

inline void expect(bool right, const std::string& what) {
    if (right)
        return;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
    if (++failures > 20)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

// MPI, devices, and the settings of the environment.
class Job {
  public:
    Job(int* argc, char*** argv) {
        MPI_Init(argc, argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        gpu::Driver& driver = gpu::Driver::get();
        for (int device = driver.devices - 1; device >= 0; --device)
            driver.use(device);
        driver.use(rank % driver.devices);
        if (!swy::device::adopt_loaded_driver())
            MPI_Abort(MPI_COMM_WORLD, 99);
        swy::progress::has_self = true;
        swy::settings::Values values;
        expect(swy::settings::read(values).empty(), "settings that are not valid");
        swy::settings::install(values, true);
        MPI_Comm_dup(MPI_COMM_WORLD, &chunks);
        MPI_Comm_set_errhandler(chunks, MPI_ERRORS_RETURN);
    }
    ~Job() {
        MPI_Comm_free(&chunks);
        swy::device::release_pools();
        swy::datatype::release();
        MPI_Finalize();
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    static void set_chunk(std::size_t bytes) {
        swy::settings::Values values = swy::settings::values();
        values.p2p_chunk = bytes;
        swy::settings::install(values, true);
    }

    swy::staging::Route route(int tag) const { return {chunks, 1 - rank, tag}; }

    int rank = 0;
    MPI_Comm chunks = MPI_COMM_NULL;
};

inline Payload payload_at(void* address, MPI_Count count, MPI_Datatype type) {
    swy::Operand operand;
    operand.address = address;
    operand.count = count;
    operand.type = type;
    return swy::pack::payload_of(swy::Call{}, operand);
}

// Steps until all are done; a minute is more than any of it takes.
inline bool finish(const std::vector<Transfer*>& all, const std::string& what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
        bool done = true;
        for (Transfer* transfer : all) {
            transfer->step();
            done = done && transfer->done();
        }
        if (done)
            return true;
        if (std::chrono::steady_clock::now() > end) {
            expect(false, what + ": not finished");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        std::this_thread::yield();
    }
}

// Steps for a while in which nothing that needs the peer can have come to an end.
inline void step_for(Transfer& transfer, std::chrono::milliseconds time) {
    for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
        transfer.step();
        std::this_thread::yield();
    }
}

// Without a period that any offset could be wrong by.
inline std::byte value(std::size_t i, int salt) {
    return static_cast<std::byte>((i * 0x9e3779b97f4a7c15u + static_cast<unsigned>(salt) * 0xd1b54a32d192ed03u) >> 56);
}
inline std::vector<std::byte> pattern(std::size_t bytes, int salt) {
    std::vector<std::byte> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        content[i] = value(i, salt);
    return content;
}

// How a message's bytes lie in memory, by arithmetic of the test's own.
enum class Shape { kRun, kRows, kMembers, kTurned };
inline constexpr Shape kShapes[] = {Shape::kRun, Shape::kRows, Shape::kMembers, Shape::kTurned};
inline const char* name(Shape shape) {
    constexpr const char* kNames[] = {"run", "rows", "members", "turned"};
    return kNames[static_cast<int>(shape)];
}

// Room for at least `bytes` bytes of data in that shape, with a margin that nothing may touch.
class Buffer {
  public:
    static constexpr std::size_t kMargin = 100;

    Buffer(gpu::Kind kind, Shape shape, std::size_t bytes) : shape_(shape), count_(elements(bytes)) {
        constexpr int kLengths[] = {3, 1, 5};
        constexpr MPI_Aint kAt[] = {9, 2, 12};
        MPI_Datatype inner = MPI_DATATYPE_NULL;
        switch (shape) {
            case Shape::kRun:
                MPI_Type_contiguous(1, MPI_BYTE, &type_);
                break;
            case Shape::kRows:  // 3 bytes every 7
                MPI_Type_vector(10, 3, 7, MPI_BYTE, &inner);
                MPI_Type_create_resized(inner, 0, 70, &type_);
                break;
            case Shape::kMembers:  // 9 bytes of 20, not in the order of addresses
                MPI_Type_create_hindexed(3, kLengths, kAt, MPI_BYTE, &inner);
                MPI_Type_create_resized(inner, 0, 20, &type_);
                break;
            case Shape::kTurned:  // 4 bytes every 6, from high addresses to low ones
                MPI_Type_create_hvector(static_cast<int>(count_), 4, -6, MPI_BYTE, &type_);
                break;
        }
        if (inner != MPI_DATATYPE_NULL)
            MPI_Type_free(&inner);
        MPI_Type_commit(&type_);
        memory_.emplace_back(kind, span() + 2 * kMargin);
    }
    ~Buffer() { MPI_Type_free(&type_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    gpu::Memory& memory() { return memory_.front(); }
    std::size_t size() const { return span() + 2 * kMargin; }

    // Where byte i of the packed form lies.
    std::size_t place(std::size_t i) const {
        constexpr std::size_t kMembers[] = {9, 10, 11, 2, 12, 13, 14, 15, 16};
        switch (shape_) {
            default:
                return kMargin + i;
            case Shape::kRows:
                return kMargin + i / 3 * 7 + i % 3;
            case Shape::kMembers:
                return kMargin + i / 9 * 20 + kMembers[i % 9];
            case Shape::kTurned:
                return kMargin + (count_ - 1 - i / 4) * 6 + i % 4;
        }
    }

    Payload payload() {
        const bool one = shape_ == Shape::kTurned;
        return payload_at(memory().at(one ? kMargin + (count_ - 1) * 6 : kMargin), one ? 1 : count(), type_);
    }

  private:
    MPI_Count count() const { return static_cast<MPI_Count>(count_); }
    std::size_t elements(std::size_t bytes) const {
        constexpr std::size_t kSizes[] = {1, 30, 9, 4};
        const std::size_t size = kSizes[static_cast<int>(shape_)];
        return std::max<std::size_t>(1, (bytes + size - 1) / size);
    }
    std::size_t span() const {
        constexpr std::size_t kExtents[] = {1, 70, 20, 6};
        return count_ * kExtents[static_cast<int>(shape_)];
    }

    Shape shape_;
    std::size_t count_;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    std::vector<gpu::Memory> memory_;
};

}  // namespace transfers
