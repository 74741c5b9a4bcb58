#include "vgpu/nccl/transport_shm.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vgpu/nccl/debug.hpp"

namespace vgpu::nccl {
namespace {

constexpr std::size_t kHead = 4096;

struct SegmentHead {
    Name name;
    std::int32_t ranks;
};

using Flag = std::atomic<std::uint32_t>;

class SharedMemoryChannel final : public Channel {
  public:
    SharedMemoryChannel(std::shared_ptr<Segment> segment, int self, int peer)
        : segment_(std::move(segment)),
          out_(segment_->ring(self, peer)),
          in_(segment_->ring(peer, self)),
          peer_bell_(segment_->bell(peer)) {}

    std::size_t write(const void* data, std::size_t bytes) override {
        const std::uint64_t written = out_.written.load(std::memory_order_relaxed);
        const std::uint64_t used = written - out_.consumed.load(std::memory_order_acquire);
        const std::size_t total = std::min<std::size_t>(bytes, Ring::kCapacity - used);
        const auto* from = static_cast<const std::byte*>(data);
        for (std::size_t done = 0; done < total;) {
            const std::size_t at = (written + done) % Ring::kCapacity;
            const std::size_t part = std::min(total - done, Ring::kCapacity - at);
            std::memcpy(out_.data + at, from + done, part);
            done += part;
        }
        out_.written.store(written + total, std::memory_order_release);
        changed_ = changed_ || total > 0;
        return total;
    }

    std::span<const std::byte> peek() override {
        const std::uint64_t consumed = in_.consumed.load(std::memory_order_relaxed);
        const std::uint64_t there = in_.written.load(std::memory_order_acquire) - consumed;
        const std::size_t at = consumed % Ring::kCapacity;
        return {in_.data + at, std::min<std::size_t>(there, Ring::kCapacity - at)};
    }

    void consume(std::size_t bytes) override {
        in_.consumed.store(in_.consumed.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
        changed_ = changed_ || bytes > 0;
    }

    void notify() override {
        if (std::exchange(changed_, false))
            peer_bell_.ring();
    }

    bool broken() const override { return false; }

  private:
    std::shared_ptr<Segment> segment_;
    Ring& out_;
    Ring& in_;
    Bell& peer_bell_;
    bool changed_ = false;
};

ncclResult_t failed(const char* what) {
    warn("Shared memory between the ranks of this host: %s failed: %s", what, std::strerror(errno));
    return ncclSystemError;
}

}  // namespace

std::size_t Segment::size_for(int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t bells = (n * (sizeof(Bell) + sizeof(Flag)) + kHead - 1) / kHead * kHead;
    return kHead + bells + n * n * sizeof(Ring);
}

ncclResult_t Segment::create(int ranks, const Name& name, std::shared_ptr<Segment>& out) {
    Fd file(memfd_create("vgpu-nccl", MFD_CLOEXEC));
    if (!file || ftruncate(file.get(), static_cast<off_t>(size_for(ranks))) != 0)
        return failed("making the segment");
    std::shared_ptr<Segment> segment(new Segment(std::move(file), ranks));
    const ncclResult_t result = segment->map();
    if (result != ncclSuccess)
        return result;
    const SegmentHead head{name, ranks};
    std::memcpy(segment->base_, &head, sizeof head);
    out = std::move(segment);
    return ncclSuccess;
}

ncclResult_t Segment::attach(const Location& location, int ranks, const Name& name, std::shared_ptr<Segment>& out) {
    const std::string path = "/proc/" + std::to_string(location.pid) + "/fd/" + std::to_string(location.fd);
    Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file)
        return failed(("opening " + path).c_str());
    std::shared_ptr<Segment> segment(new Segment(std::move(file), ranks));
    const ncclResult_t result = segment->map();
    if (result != ncclSuccess)
        return result;
    segment->close_file();
    SegmentHead head;
    std::memcpy(&head, segment->base_, sizeof head);
    if (head.name != name || head.ranks != ranks) {
        warn(
            "%s is not the communicator's segment: do the ranks share a process id space? If not, give them different "
            "NCCL_HOSTID values",
            path.c_str());
        return ncclSystemError;
    }
    out = std::move(segment);
    return ncclSuccess;
}

ncclResult_t Segment::map() {
    void* at = mmap(nullptr, size_for(ranks_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
    if (at == MAP_FAILED)
        return failed("mapping the segment");
    base_ = static_cast<std::byte*>(at);
    return ncclSuccess;
}

Segment::~Segment() {
    if (base_ != nullptr)
        munmap(base_, size_for(ranks_));
}

Segment::Location Segment::location() const {
    return {getpid(), file_.get()};
}

Bell& Segment::bell(int rank) const {
    return *reinterpret_cast<Bell*>(base_ + kHead + static_cast<std::size_t>(rank) * sizeof(Bell));
}

Flag& Segment::stopped(int rank) const {
    const std::size_t bells = static_cast<std::size_t>(ranks_) * sizeof(Bell);
    return *reinterpret_cast<Flag*>(base_ + kHead + bells + static_cast<std::size_t>(rank) * sizeof(Flag));
}

Ring& Segment::ring(int from, int to) const {
    const auto n = static_cast<std::size_t>(ranks_);
    const std::size_t index = static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to);
    return *reinterpret_cast<Ring*>(base_ + size_for(ranks_) - n * n * sizeof(Ring) + index * sizeof(Ring));
}

std::unique_ptr<Channel> shared_memory_channel(std::shared_ptr<Segment> segment, int self, int peer) {
    return std::make_unique<SharedMemoryChannel>(std::move(segment), self, peer);
}

}  // namespace vgpu::nccl
