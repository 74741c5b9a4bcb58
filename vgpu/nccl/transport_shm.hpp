// Ranks of one host: a segment of shared memory with a bell for each rank and a ring of bytes for each ordered pair.
// The segment has no name in any file system; it goes away with the last process that maps it, however that ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <nccl.h>
#include <sys/types.h>

#include "vgpu/nccl/bell.hpp"
#include "vgpu/nccl/channel.hpp"
#include "vgpu/nccl/identity.hpp"
#include "vgpu/nccl/socket.hpp"

namespace vgpu::nccl {

// One direction. One writer, one reader; positions only grow.
struct Ring {
    static constexpr std::size_t kCapacity = (64 << 10) - 128;
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> consumed;
    std::byte data[kCapacity];
};
static_assert(sizeof(Ring) == 64 << 10 && Ring::kCapacity % kFrameAlignment == 0);

class Segment {
  public:
    // The segment's file, for the other processes of the host; sent between ranks as raw bytes.
    struct Location {
        pid_t pid = 0;
        int fd = -1;
    };

    // `ranks` are those on this host; `name` is checked by who attaches.
    static ncclResult_t create(int ranks, const Name& name, std::shared_ptr<Segment>& out);
    static ncclResult_t attach(const Location& location, int ranks, const Name& name, std::shared_ptr<Segment>& out);
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;
    ~Segment();

    Location location() const;
    void close_file() { file_.close(); }  // once every rank has attached

    Bell& bell(int rank) const;
    std::atomic<std::uint32_t>& stopped(int rank) const;  // 1 when the rank needs none of the others any more
    Ring& ring(int from, int to) const;

  private:
    Segment(Fd file, int ranks) : file_(std::move(file)), ranks_(ranks) {}
    ncclResult_t map();
    static std::size_t size_for(int ranks);

    Fd file_;
    int ranks_;
    std::byte* base_ = nullptr;
};

std::unique_ptr<Channel> shared_memory_channel(std::shared_ptr<Segment> segment, int self, int peer);

}  // namespace vgpu::nccl
