// An NCCL communicator in which a process may have several members, one for each of its devices, and collectives that
// are launched on all of them as one group. comm/buffer_slots makes and keeps them for the extension's collectives on
// several buffers (src/ext/multi), p2p for the messages between two processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "nccl/collectives.hpp"
#include "nccl/communicator.hpp"

namespace swy::nccl {

// The members of one process. A process may have none: it then takes no part in NCCL but keeps the communicator in its
// cache like the others, so that all processes find the same entries there.
class LocalMembers {
  public:
    // Starts to set up the communicator of `group`, in which this process's members are the ranks from `first` on, one
    // for each context; all of them are made in one NCCL group. `channels` as for Communicator. Does not wait: call
    // step_make() until it no longer returns kUnderWay. Returns nullptr on failure, with `problem` set.
    static std::shared_ptr<LocalMembers> begin(const Group& group, int first, std::span<const device::Context> contexts,
                                               const UniqueId& id, int channels, std::string& problem);
    Communicator::Making step_make(std::string& problem);  // after kFailed all members have been aborted

    // As Communicator's functions of the same names.
    static std::uint64_t idle_id(const Group& group);
    static std::shared_ptr<LocalMembers> take_idle(const Group& group, std::uint64_t id);
    static void retire(std::shared_ptr<LocalMembers> local);
    static void discard(std::shared_ptr<LocalMembers> local);
    static void discard_all();  // at MPI_Finalize, before Communicator::end_all()

    // As Communicator's functions of the same names, applied to all members.
    bool start_end();
    bool step_end();
    static void finish_ending(const std::shared_ptr<LocalMembers>& local);
    bool gone() const;  // aborted, or ended

    int size() const { return static_cast<int>(group_.size()); }
    std::uint64_t id() const { return id_; }
    const std::vector<std::shared_ptr<Communicator>>& members() const { return members_; }
    bool usable() const;

    // An error of one member ends all of them. The other processes learn of it through the first member's Failures.
    void set_failures(std::unique_ptr<Failures> failures);
    std::string failure_elsewhere();
    void fail(const std::string& why);
    void abort();

    void begin_transfer() { transfers_.fetch_add(1, std::memory_order_relaxed); }
    void end_transfer() { transfers_.fetch_sub(1, std::memory_order_relaxed); }

  private:
    explicit LocalMembers(const Group& group, std::uint64_t id) : group_(group), id_(id) {}
    bool in_use() const { return transfers_.load(std::memory_order_relaxed) != 0; }

    const Group group_;
    const std::uint64_t id_;
    std::vector<std::shared_ptr<Communicator>> members_;
    std::atomic<int> transfers_{0};
};

// One collective on all members of this process, of which there is at least one: as Operation, with each launch made as
// one NCCL group.
class MembersOperation {
  public:
    // `works` come from prepare(), one for each member.
    MembersOperation(std::vector<Work> works, std::shared_ptr<LocalMembers> local);
    ~MembersOperation();
    MembersOperation(const MembersOperation&) = delete;
    MembersOperation& operator=(const MembersOperation&) = delete;

    bool ready();
    void launch();
    bool step();
    bool launch_finished() const { return state_ >= State::kRunning; }
    bool done() const { return state_ == State::kDone; }
    const std::string& failure() const { return failure_; }
    LocalMembers& local() { return *local_; }

  private:
    enum class State : std::uint8_t { kNew, kLaunching, kRunning, kDone };
    void launch_next();
    void launch_returned(int result);
    bool advance();
    void end(std::string failure);

    const std::vector<Work> works_;
    const std::shared_ptr<LocalMembers> local_;
    std::vector<device::Stream> device_streams_;
    std::size_t launches_ = 0;  // launches started
    State state_ = State::kNew;
    std::string failure_;
};

}  // namespace swy::nccl
