// The resources that communicators share: links to all peers, the channels' memory, the bell, the order of operations.
// A communicator has a family of its own, or its parent's (splitShare, shrinkShare in the parent's configuration).
// Ranks here are those of the first of them. Halting or failing affects all that share, as NCCL's guide warns of
// aborting one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <nccl.h>

#include "vgpu/nccl/bell.hpp"
#include "vgpu/nccl/device.hpp"
#include "vgpu/nccl/link.hpp"
#include "vgpu/nccl/rendezvous.hpp"
#include "vgpu/nccl/ticket_lock.hpp"

namespace vgpu::nccl {

class Segment;
class TcpChannel;
class Watcher;

// The record that each rank sends to the others, as raw bytes.
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
    // Connects rank `self`, which is on that device, with all others by that many of NCCL's channels, which take memory
    // of the device. Each of them calls this with the same members and name; all fail where one does.
    static ncclResult_t connect(const std::vector<Member>& members, int self, const Name& name, const Device& device,
                                int channels, Stop stop, std::shared_ptr<Family>& out);
    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;
    ~Family();

    int ranks() const { return static_cast<int>(links_.size()); }
    int self() const { return self_; }
    Link* link(int peer) const { return links_[static_cast<std::size_t>(peer)].get(); }  // null for self
    Bell& bell() const { return *bell_; }
    TicketLock& ticket_lock() { return ticket_lock_; }
    std::uint64_t next_run() { return ++runs_; }

    // The communicators that share it: as in NCCL, the last one to be destroyed waits for the other ranks of the host.
    void join() { ++users_; }
    bool leave() { return --users_ == 0; }
    bool only_user() const { return users_ == 1; }

    // This rank needs the other ranks of its host no more: NCCL's proxy thread has been told to stop.
    void stop();
    // Waits until all other ranks of the host have stopped or their processes are gone: NCCL's proxy thread serves them
    // until then, and ncclCommDestroy joins it (proxy.cc, ncclProxyService). Of the ranks of one process the last one
    // waits.
    void wait_for_host();

    // Connects this rank with others as NCCL does at the first operation that needs it: waits until each of them does
    // the same. For sends and receives each direction between two ranks is connected on its own, for collectives all
    // ranks for an algorithm. Nothing happens where they are connected.
    ncclResult_t connect_peers(const std::vector<int>& sends, const std::vector<int>& receives, Stop stop);
    ncclResult_t connect_all(int algorithm, Stop stop);

    // Ends the running operation and lets none run afterwards; the links cannot be used then.
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
    ncclResult_t take_memory(const Device& device, int channels);

    std::vector<std::unique_ptr<Link>> links_;
    CUmemGenericAllocationHandle memory_ = 0;  // of the channels, which virtual ones do not use
    int self_;
    std::shared_ptr<Segment> segment_;
    Bell* bell_ = nullptr;
    std::vector<TcpChannel*> remote_;  // owned by their links
    std::vector<int> remote_ranks_;
    std::unique_ptr<Watcher> watcher_;
    TicketLock ticket_lock_;
    std::uint64_t runs_ = 0;
    Name name_{};
    std::vector<Member> members_;
    std::vector<int> here_;  // the ranks of this host
    std::atomic<int> users_{0};
    std::mutex connecting_;                    // guards what follows
    std::set<std::pair<int, int>> connected_;  // from, to
    std::set<int> algorithms_;
    std::atomic<bool> halted_{false};
    std::atomic<ncclResult_t> error_{ncclSuccess};
    std::atomic<bool> ended_{false};
};

}  // namespace vgpu::nccl
