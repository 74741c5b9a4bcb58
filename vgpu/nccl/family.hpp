// What the ranks of a communicator have between them: links to all peers, the bell, the order of operations. A
// communicator has a family of its own, or its parent's (splitShare, shrinkShare in the parent's configuration). Ranks
// here are those of the first of them. Halting or failing concerns all that share, as NCCL's guide warns of aborting
// one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nccl.h>

#include "vgpu/nccl/bell.hpp"
#include "vgpu/nccl/gate.hpp"
#include "vgpu/nccl/link.hpp"
#include "vgpu/nccl/rendezvous.hpp"

namespace vgpu::nccl {

class Segment;
class TcpChannel;
class Watcher;

// What each rank tells the others of itself. Sent from rank to rank as it is.
struct Member {
    std::uint64_t host = 0;
    std::uint64_t bus_id = 0;  // the device's PCI address, its hexadecimal digits taken as one number as in NCCL
    Service service;
    std::int32_t pid = 0;
    std::int32_t rank = 0;
    std::int32_t version = 0;
    std::int32_t unused = 0;
};

class Family {
  public:
    // Connects rank `self` with all others; each of them calls this with the same members and name.
    static ncclResult_t connect(const std::vector<Member>& members, int self, const Name& name, Stop stop,
                                std::shared_ptr<Family>& out);
    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;
    ~Family();

    int ranks() const { return static_cast<int>(links_.size()); }
    int self() const { return self_; }
    Link* link(int peer) const { return links_[static_cast<std::size_t>(peer)].get(); }  // null for self
    Bell& bell() const { return *bell_; }
    Gate& gate() { return gate_; }
    std::uint64_t next_run() { return ++runs_; }

    // Ends what runs and lets nothing run any more; the links are then of no use.
    void halt();
    bool halted() const { return halted_; }

    // The first error is kept. `ended`: operations return at once instead of waiting to be aborted.
    void fail(ncclResult_t error, bool ended);
    ncclResult_t error() const { return error_; }
    bool ended() const { return ended_; }

  private:
    Family(int ranks, int self);
    ncclResult_t share_memory(const std::vector<Member>& members, const Name& name, Stop stop);
    ncclResult_t connect_hosts(const std::vector<Member>& members, const Name& name, Stop stop);
    ncclResult_t watch();

    std::vector<std::unique_ptr<Link>> links_;
    int self_;
    std::shared_ptr<Segment> segment_;
    Bell* bell_ = nullptr;
    std::vector<TcpChannel*> remote_;  // owned by their links
    std::vector<int> remote_ranks_;
    std::unique_ptr<Watcher> watcher_;
    Gate gate_;
    std::uint64_t runs_ = 0;
    std::atomic<bool> halted_{false};
    std::atomic<ncclResult_t> error_{ncclSuccess};
    std::atomic<bool> ended_{false};
};

}  // namespace vgpu::nccl
