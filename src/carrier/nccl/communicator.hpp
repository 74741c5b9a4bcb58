// One NCCL communicator of this process and the lane on which its work runs; their making, their cache and their end.
// comm/establish makes those of MPI communicators and comm::State holds them, p2p makes those of two ranks;
// collectives.cpp and point_to_point.cpp launch on them. split.cpp makes one of another one's members.
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
#include "request/wait.hpp"

struct ncclComm;

namespace swy::carrier::nccl {

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

// How the members of a group tell each other that one of them has failed: NCCL does not say so to the others, which
// wait for it. Whoever makes the communicator brings it. Neither function blocks.
class Failures {
  public:
    virtual ~Failures() = default;
    virtual void tell(const std::string& why) = 0;
    virtual std::string heard() = 0;  // who has failed and why; "": nobody that is known of
};

struct Counters {  // of this process, since MPI_Init
    long made = 0, split = 0, reused = 0, evicted = 0, live = 0, live_max = 0;
};

class Communicator {
  public:
    ~Communicator();
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    // Draws a unique id, on the rank whose id the group will use. "" or what NCCL says.
    static std::string draw(UniqueId& id);

    // Does NCCL here take several ids for one communicator (ncclCommInitRankScalable, 2.23)?
    static bool takes_several_ids();

    // Makes the communicator; every member of the group calls this. Waits with MPI's progress, until `given_up` says
    // that another member has failed. nullptr on failure, with `problem` set unless it was given up. Several ids only
    // where all members take them.
    static std::shared_ptr<Communicator> make(const Group& group, int rank, std::span<const UniqueId> ids,
                                              device::Context context, const std::function<bool()>& given_up,
                                              std::string& problem);

    // The same without waiting: begin(), then step_make() until it is no more under way. `channels` bounds the memory
    // that each connection takes and the GPU's share that each operation takes; 0 leaves them to NCCL. One that is
    // still in the making may be aborted: the other members then must be told, or they wait for it in NCCL.
    enum class Making : std::uint8_t { kUnderWay, kMade, kFailed };
    static std::shared_ptr<Communicator> begin(const Group& group, int rank, std::span<const UniqueId> ids,
                                               device::Context context, int channels, std::string& problem);
    Making step_make(std::string& problem);  // once kFailed, it has been aborted

    // May ncclCommSplit be asked of this one now, as far as this process knows?
    bool can_split() const;

    // This rank's part in one that ncclCommSplit is to make of some of the parent's members: what may fail here alone,
    // before all of the parent's members agree on it. `color` is the same in a child and in no other of that split.
    // nullptr where a resource is missing.
    static std::shared_ptr<Communicator> plan_split(const std::shared_ptr<Communicator>& parent, Group group, int rank,
                                                    int color);

    // Every member calls this after the agreement, at the same place among the parent's launches and with none under
    // way; `child` is null on a member that is in no child. Does not wait: step_make() of the child. Where it fails,
    // the parent is aborted and its members are told.
    void begin_split(const std::shared_ptr<Communicator>& child);

    // Is one under way of this parent's? NCCL lets nobody use it until then. Asks NCCL; as of the last question.
    bool splitting();
    bool being_split() const { return !settled(); }

    // An idle communicator of exactly this group, found by its id (0: any). The members must agree on the id before
    // they take it. It may still be in the making.
    static std::uint64_t idle_id(const Group& group);
    static std::shared_ptr<Communicator> take_idle(const Group& group, std::uint64_t id);

    // The MPI communicator is gone: keeps the NCCL communicator for a later one of the same group, ends the least
    // recently used beyond the bound (SWITCHYARD_COMM_CACHE). Local and non-blocking. Null is allowed.
    static void retire(std::shared_ptr<Communicator> communicator);

    // Ends one that another member no longer has, so that nobody can use it. Local and non-blocking. Null is allowed.
    static void discard(std::shared_ptr<Communicator> communicator);

    // Begins to end a communicator that no cache is to keep; all members do. step_end() is true when it is gone. What
    // is handed to finish_ending() before that, end_all() ends.
    bool start_end();  // a non-blocking ncclCommFinalize; true while that is under way
    bool step_end();
    static void finish_ending(std::shared_ptr<Communicator> communicator);
    static void count_evicted();            // for the report, where p2p ends one for another
    static void count_reused(long number);  // the same, of those that several.cpp keeps

    // The number of the communicators that are made with it, the same on all members; never 0.
    static std::uint64_t id_of(const UniqueId& unique);

    // Ends all that is left, at MPI_Finalize: all members do. Aborts what does not end in time.
    static void end_all();

    static Counters counters();  // asks NCCL about what it was still making

    const Group& group() const { return group_; }
    int rank() const { return rank_; }
    int size() const { return static_cast<int>(group_.size()); }
    std::uint64_t id() const { return id_; }
    ncclComm* handle() const { return handle_; }
    device::Lane& lane() { return lane_; }
    device::Context context() const { return lane_.context(); }

    // Waits until the launch of a call that returned ncclInProgress is through. "" or the error.
    std::string settle(int result, const request::Deadline& deadline);

    // Waits, with MPI's progress, until all work on the lane is done. "" or the error.
    std::string finish(const request::Deadline& deadline);

    // What keeps the work under way from its end, as far as NCCL and the other members say. "": nothing.
    std::string trouble();

    // Before anything is launched. Without it nobody is told.
    void tell_failures_by(std::unique_ptr<Failures> failures) { failures_ = std::move(failures); }

    // Has another member failed in what is launched here? As heard().
    std::string failure_elsewhere();

    // After an error here or elsewhere: the others hear of it, unless that is how it is known here, and it is aborted.
    void fail(const std::string& why);

    // Why it has been aborted, as far as is known. The handle is held.
    std::string why_unusable() const;

    // NCCL gives everything back. Nothing can be launched any more.
    void abort();
    bool usable() const { return handle_ != nullptr; }

    // Held by who uses the handle while another thread might abort().
    std::unique_lock<std::mutex> hold_handle() { return std::unique_lock(handle_mutex_); }

    // While p2p has transfers on it, reserved or under way, it is neither handed out again nor ended.
    void begin_transfer() { transfers_.fetch_add(1, std::memory_order_relaxed); }
    void end_transfer() { transfers_.fetch_sub(1, std::memory_order_relaxed); }
    bool in_transfer() const { return transfers_.load(std::memory_order_relaxed) != 0; }

  private:
    // One ncclCommSplit, known to the parent while it is under way and to the child until that has its handle. NCCL
    // writes here when it is through.
    struct Split {
        explicit Split(int of_color);
        const int color;
        const request::Deadline deadline;
        ncclComm* handle = nullptr;
        bool made = false, wanted = true;
    };
    void end_split();
    Making step_child(std::string& problem);
    void give_up_child();
    void adopt(ncclComm* handle);
    bool settled() const { return !settling_.load(std::memory_order_relaxed); }

    Communicator(Group group, int rank, std::uint64_t id) : group_(std::move(group)), rank_(rank), id_(id) {}
    Group group_;
    int rank_;
    std::uint64_t id_;
    ncclComm* handle_ = nullptr;
    std::mutex handle_mutex_;
    device::Lane lane_;
    bool ending_ = false, made_ = false, split_off_ = false;
    const char* made_by_ = "ncclCommInitRankConfig";
    std::shared_ptr<Split> split_;          // of a parent under handle_mutex_
    std::shared_ptr<Communicator> parent_;  // of a child without a handle
    std::atomic<bool> settling_{false};     // a split is under way, of this one or that makes it
    std::uint64_t splits_ = 0;              // that it was the parent of
    std::atomic<int> transfers_{0};
    std::unique_ptr<Failures> failures_;
    std::string failure_;                     // the first, under handle_mutex_
    std::atomic<bool> failure_known_{false};  // to all members, or on its way to them
};

}  // namespace swy::carrier::nccl
