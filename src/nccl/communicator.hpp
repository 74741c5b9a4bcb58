// One NCCL communicator of this process and the stream on which its work runs: how it is made, kept idle and destroyed.
// comm/setup makes those of MPI communicators and comm::State holds them; p2p makes those of two ranks. collectives.cpp
// and point_to_point.cpp launch on them. split.cpp makes one from members of another.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "progress/wait.hpp"

struct ncclComm;

namespace swy::nccl {

// A member of a group of GPUs, as every other member sees it. Sent as bytes.
struct Member {
    std::uint64_t host = 0;  // hash of host name and boot id (or NCCL_HOSTID)
    std::uint64_t process = 0;
    std::array<std::uint8_t, 16> gpu{};  // UUID
    bool operator==(const Member&) const = default;
};
using Group = std::vector<Member>;  // ordered by rank
inline constexpr std::size_t kUniqueIdBytes = 128;
using UniqueId = std::array<std::byte, kUniqueIdBytes>;

// How the members of a group learn that one of them has failed: NCCL does not report it to the others, which wait for
// the failed member. Whoever makes the communicator provides this. Neither function blocks.
class Failures {
  public:
    virtual ~Failures() = default;
    virtual void tell(const std::string& why) = 0;
    virtual std::string known() = 0;  // which member has failed and why; "" if none is known to have
};

struct Counters {  // of this process, since MPI_Init
    long made = 0, split = 0, reused = 0, evicted = 0, live = 0, live_max = 0;
};

class Communicator {
  public:
    ~Communicator();
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    // Gets a unique id from NCCL, on the rank whose id the group will use. Returns "" or NCCL's error.
    static std::string draw(UniqueId& id);

    // Tells whether this NCCL accepts several ids for one communicator (ncclCommInitRankScalable, 2.23).
    static bool takes_several_ids();

    // Makes the communicator; every member of the group calls this. Waits, driving MPI's progress, until `given_up`
    // says that another member has failed. Returns nullptr on failure, with `problem` set unless it was given up.
    // Several ids may be passed only where all members accept them.
    static std::shared_ptr<Communicator> make(const Group& group, int rank, std::span<const UniqueId> ids,
                                              device::Context context, const std::function<bool()>& given_up,
                                              std::string& problem);

    // The same without waiting: begin(), then step_make() until it no longer returns kUnderWay. `channels` bounds the
    // memory that each connection takes and the share of the GPU that each operation takes; 0 leaves both to NCCL. A
    // communicator whose set-up is pending may be aborted: the other members must then be told, or they wait for it in
    // NCCL.
    enum class Making : std::uint8_t { kUnderWay, kMade, kFailed };
    static std::shared_ptr<Communicator> begin(const Group& group, int rank, std::span<const UniqueId> ids,
                                               device::Context context, int channels, std::string& problem);
    Making step_make(std::string& problem);  // after kFailed the communicator has been aborted

    // Tells whether ncclCommSplit may be called on this communicator now, as far as this process knows.
    bool can_split() const;

    // Prepares this rank's child communicator for an ncclCommSplit of the parent: everything that may fail on this rank
    // alone comes here, before all of the parent's members agree on the split. `color` is the same on all members of a
    // child and differs between the children of one split. Returns nullptr where a resource is missing.
    static std::shared_ptr<Communicator> plan_split(const std::shared_ptr<Communicator>& parent, Group group, int rank,
                                                    int color);

    // Every member of the parent calls this after the agreement, at the same position in the parent's sequence of
    // launches and with no launch under way; `child` is null on a member that belongs to no child. Does not wait: call
    // step_make() of the child. On failure the parent is aborted and its members are told.
    void begin_split(const std::shared_ptr<Communicator>& child);

    // Tell whether a split of this parent is under way: NCCL lets nobody use the parent until it ends. splitting() asks
    // NCCL; being_split() returns what was known when it was last asked.
    bool splitting();
    bool being_split() const { return split_pending_.load(std::memory_order_relaxed); }

    // An idle communicator of exactly this group, found by its id (0: any). The members must agree on the id before
    // they reuse it. Its set-up may still be pending.
    static std::uint64_t idle_id(const Group& group);
    static std::shared_ptr<Communicator> take_idle(const Group& group, std::uint64_t id);

    // Called when the MPI communicator is freed: keeps the NCCL communicator for a later MPI communicator of the same
    // group and ends the least recently used ones beyond the bound (SWITCHYARD_COMM_CACHE). Local and non-blocking.
    // Null is allowed.
    static void retire(std::shared_ptr<Communicator> communicator);

    // Ends a communicator that another member no longer has, so that nobody can use it. Local and non-blocking. Null is
    // allowed.
    static void discard(std::shared_ptr<Communicator> communicator);

    // start_end() starts to destroy a communicator that is not to be kept idle; all members call it. step_end() returns
    // true when it is destroyed. One that is passed to finish_ending() before that is destroyed by end_all().
    bool start_end();  // a non-blocking ncclCommFinalize; true while that is under way
    bool step_end();
    static void finish_ending(std::shared_ptr<Communicator> communicator);
    static void count_evicted();            // for the report, when p2p evicts a communicator
    static void count_reused(long number);  // for the report, when LocalMembers are reused

    // The number of the communicators that are made with this unique id: the same on all members, never 0.
    static std::uint64_t id_of(const UniqueId& unique);

    // Destroys all remaining communicators, at MPI_Finalize; all members call it. Aborts those that do not end in time.
    static void end_all();

    static Counters counters();  // asks NCCL about pending set-ups

    const Group& group() const { return group_; }
    int rank() const { return rank_; }
    int size() const { return static_cast<int>(group_.size()); }
    std::uint64_t id() const { return id_; }
    ncclComm* handle() const { return handle_; }
    device::Stream& device_stream() { return device_stream_; }
    device::Context context() const { return device_stream_.context(); }

    // Waits until NCCL has finished the launch of a call that returned ncclInProgress. Returns "" or the error.
    std::string wait_launched(int result, const progress::Deadline& deadline);

    // Waits, driving MPI's progress, until all work on the stream is done. Returns "" or the error.
    std::string finish(const progress::Deadline& deadline);

    // The state that NCCL reports for its last call and for all work under way (ncclResult_t). The caller holds the
    // handle, or nobody else has it. An operation counts as successful only if this is asked after its stream has come
    // to its end: NCCL ends the stream's work also when it fails.
    int state() const;

    // The error that NCCL reports on this process, or "".
    std::string failure_here();

    // What prevents the work under way from completing, as far as NCCL and the other members report. "": nothing is
    // known.
    std::string trouble();

    // To be called before anything is launched. Without it no other member is told of failures.
    void set_failures(std::unique_ptr<Failures> failures) { failures_ = std::move(failures); }

    // Tells whether another member has failed in what is launched on this communicator; the text is that of
    // Failures::known().
    std::string failure_elsewhere();

    // To be called after an error on any member: tells the other members, unless they are how it became known, and
    // aborts the communicator.
    void fail(const std::string& why);

    // Why the communicator has been aborted, as far as is known. The caller holds the handle.
    std::string why_unusable() const;

    // Has NCCL release all resources (ncclCommAbort). Nothing can be launched afterwards.
    void abort();
    bool usable() const { return handle_ != nullptr; }

    // To be held while the handle is used and another thread might call abort().
    std::unique_lock<std::mutex> hold_handle() { return std::unique_lock(handle_mutex_); }

    // While p2p has transfers reserved or under way on it, the communicator is neither reused nor destroyed.
    void begin_transfer() { transfers_.fetch_add(1, std::memory_order_relaxed); }
    void end_transfer() { transfers_.fetch_sub(1, std::memory_order_relaxed); }
    bool in_transfer() const { return transfers_.load(std::memory_order_relaxed) != 0; }

  private:
    // One ncclCommSplit. The parent refers to it while it is under way, the child until the child has its handle. NCCL
    // stores the new handle here when the split is done.
    struct Split {
        explicit Split(int of_color);
        const int color;
        const progress::Deadline deadline;
        ncclComm* handle = nullptr;
        bool made = false, wanted = true;
    };
    void end_split();
    Making step_child(std::string& problem);
    void give_up_child();
    void adopt(ncclComm* handle);

    Communicator(Group group, int rank, std::uint64_t id) : group_(std::move(group)), rank_(rank), id_(id) {}
    Group group_;
    int rank_;
    std::uint64_t id_;
    ncclComm* handle_ = nullptr;
    std::mutex handle_mutex_;
    device::Stream device_stream_;
    bool ending_ = false, made_ = false, split_off_ = false;
    const char* made_by_ = "ncclCommInitRankConfig";
    std::shared_ptr<Split> split_;            // of a parent: guarded by handle_mutex_
    std::shared_ptr<Communicator> parent_;    // of a child that has no handle yet
    std::atomic<bool> split_pending_{false};  // a split of this communicator, or the one that makes it, is under way
    std::uint64_t splits_ = 0;                // how many splits it was the parent of
    std::atomic<int> transfers_{0};
    std::unique_ptr<Failures> failures_;
    std::string failure_;                     // the first failure; guarded by handle_mutex_
    std::atomic<bool> failure_known_{false};  // all members know of the failure, or the message is on its way
};

}  // namespace swy::nccl
