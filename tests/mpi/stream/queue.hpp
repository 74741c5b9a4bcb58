// A CUDA stream of the test's, bound to a stream communicator, and what a test queues on it: data comes into buffers,
// and goes out of them, only in the stream's order. Test programs only.
#pragma once

#include <mpi.h>
#include <mpix_switchyard.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "../gpu.hpp"

namespace stream_test {

using Bytes = std::vector<std::byte>;

class Queue {
  public:
    // Without `with_stream` the communicator is one of MPIX_STREAM_NULL, which has no order to keep but the host's.
    explicit Queue(bool with_stream = true, MPI_Comm of = MPI_COMM_WORLD) : driver_(gpu::Driver::get()) {
        driver_.check("cuStreamCreate", driver_.call<int(void**, unsigned)>("cuStreamCreate")(&stream_, 1));
        MPI_Info info = MPI_INFO_NULL;
        MPI_Info_create(&info);
        MPI_Info_set(info, "type", "cudaStream_t");
        MPIX_Info_set_hex(info, "value", &stream_, sizeof stream_);
        if (with_stream)
            MPIX_Stream_create(info, &object_);
        MPI_Info_free(&info);
        MPIX_Stream_comm_create(of, object_, &comm);
    }
    ~Queue() {
        if (comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
        if (object_ != MPIX_STREAM_NULL)
            MPIX_Stream_free(&object_);
        driver_.check("cuStreamDestroy", driver_.call<int(void*)>("cuStreamDestroy_v2")(stream_));
    }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    MPIX_Stream object() const { return object_; }
    void* stream() const { return stream_; }

    // A buffer that holds something else until the stream comes to here.
    gpu::Memory& buffer(gpu::Kind kind, const Bytes& content) {
        gpu::Memory& memory = memories_.emplace_back(kind, content.size());
        if (kind == gpu::Kind::kHost || kind == gpu::Kind::kPinned)
            std::memset(memory.address(), 0x5a, content.size());
        else
            fill(memory, 0x5a);
        put(memory, content);
        return memory;
    }
    void put(gpu::Memory& memory, const Bytes& content) {
        gpu::Memory& kept = kept_.emplace_back(gpu::Kind::kPinned, content.size());
        std::memcpy(kept.address(), content.data(), content.size());
        queue_copy(memory.kind(), memory.address(), kept.address(), content.size());
    }

    // What it holds when the stream comes to here; then it is overwritten.
    gpu::Memory& take(gpu::Memory& memory) {
        gpu::Memory& kept = kept_.emplace_back(gpu::Kind::kPinned, memory.size());
        queue_copy(memory.kind(), kept.address(), memory.address(), memory.size());
        if (memory.kind() == gpu::Kind::kDevice)
            fill(memory, 0x33);
        return kept;
    }

    void synchronize() {
        driver_.check("cuStreamSynchronize", driver_.call<int(void*)>("cuStreamSynchronize")(stream_));
    }
    void forget() {
        memories_.clear();
        kept_.clear();
        work_.clear();
    }

    MPI_Comm comm = MPI_COMM_NULL;

  private:
    void fill(gpu::Memory& memory, unsigned char value) {
        if (memory.size() != 0)
            driver_.check("cuMemsetD8Async", driver_.call<int(void*, unsigned char, std::size_t, void*)>(
                                                 "cuMemsetD8Async")(memory.address(), value, memory.size(), stream_));
    }

    // Between memory of the host's by a function of the host's: CUDA would copy at once.
    void queue_copy(gpu::Kind kind, void* to, const void* from, std::size_t bytes) {
        if (kind == gpu::Kind::kHost || kind == gpu::Kind::kPinned) {
            work_.push_back([=] { std::memcpy(to, from, bytes); });
            const auto run = [](void* work) { (*static_cast<std::function<void()>*>(work))(); };
            driver_.check("cuLaunchHostFunc", driver_.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(
                                                  stream_, run, &work_.back()));
        } else if (bytes != 0) {
            driver_.check("cuMemcpyAsync", driver_.call<int(void*, const void*, std::size_t, void*)>("cuMemcpyAsync")(
                                               to, from, bytes, stream_));
        }
    }

    gpu::Driver& driver_;
    void* stream_ = nullptr;
    MPIX_Stream object_ = MPIX_STREAM_NULL;
    std::list<gpu::Memory> memories_;
    std::list<gpu::Memory> kept_;  // page-locked: copies of other memory may be made at once, or waited for
    std::list<std::function<void()>> work_;
};

}  // namespace stream_test
