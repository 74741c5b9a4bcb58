// One NCCL communicator and this process's members in it, one for each of its devices here: how it is made, used by one
// launch after the other, kept idle and destroyed. comm/setup makes those of MPI communicators, and p2p those of two
// processes. operation.hpp launches on them.
//
// NCCL's communicators are blocking. A communicator is set up and destroyed on threads of its own (background.hpp), and
// so is a launch made for which NCCL has to connect ranks; every other launch is made by its caller and does not block.
// (Non-blocking ones would do without threads of ours, but NCCL makes a thread for each of their operations from 2.23
// on, and before 2.27 one thread of a program cannot have two of their groups under way: group.cc, groupLaunch and
// ncclGroupJobMain.) Nothing can end a call that waits inside NCCL for a rank that never comes: such a thread and its
// communicator are left alone, and whoever waited for them is told by other means (Failures, SWITCHYARD_TIMEOUT).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"

struct ncclComm;

namespace swy::nccl {

class Background;
struct Peers;

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
// the failed member. Whoever makes the communicator provides this. No function blocks.
class Failures {
  public:
    virtual ~Failures() = default;
    virtual void tell(const std::string& why) = 0;
    virtual std::string known() = 0;  // which member has failed and why; "" if none is known to have
    // May MPI yet hear that a member's process has ended, where NCCL has failed for that?
    virtual bool may_be_explained() = 0;
};

struct Counters {  // of members of this process, since MPI_Init
    long made = 0, reused = 0, evicted = 0, live = 0, live_max = 0;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
  public:
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    ~Communicator();

    // Gets a unique id from NCCL, on the rank whose id the group will use. Returns "" or NCCL's error.
    static std::string draw(UniqueId& id);

    // Tells whether this NCCL accepts several ids for one communicator (ncclCommInitRankScalable, 2.23).
    static bool takes_several_ids();

    // What NVLink takes, and what the room for messages is reckoned with (p2p/multiprocessors.hpp). Left alone NCCL
    // makes up to 64 channels where ranks share a GPU, and each takes some 12 MiB of device memory.
    static constexpr int kMostChannels = 32;

    // What to make: the communicator of `group`, in which this process's members are the ranks from `first` on, one for
    // each context. A process may have none: it then takes no part in NCCL, but keeps the communicator in its cache
    // like the others, so that all processes find the same entries there. `channels` bounds the memory that each
    // connection takes and the share of the GPU that each operation takes. Several ids may be passed only where all
    // members accept them.
    struct Plan {
        const Group& group;
        int first = 0;
        std::span<const device::Context> contexts;
        std::span<const UniqueId> ids;
        int channels = kMostChannels;
    };

    // Starts to make it; every member of the group calls this. Does not wait: call step_make() until it no longer
    // returns kUnderWay. Returns nullptr on failure, with `problem` set. A communicator whose set-up is pending may be
    // aborted: the other members must then be told, or they wait for it.
    static std::shared_ptr<Communicator> begin(const Plan& plan, std::string& problem);
    enum class Making : std::uint8_t { kUnderWay, kMade, kFailed };
    Making step_make(std::string& problem);  // after kFailed the communicator has been aborted

    // An idle communicator of exactly this group, found by its id (0: any). The members must agree on the id before
    // they reuse it.
    static std::uint64_t idle_id(const Group& group);
    static std::shared_ptr<Communicator> take_idle(const Group& group, std::uint64_t id);

    // Called when the MPI communicator is freed: keeps the NCCL communicator for a later MPI communicator of the same
    // group and ends the least recently used ones beyond the bound (SWITCHYARD_COMM_CACHE). Local and non-blocking.
    // Null is allowed.
    static void retire(std::shared_ptr<Communicator> communicator);

    // Ends a communicator that another member no longer has, so that nobody can use it. Local and non-blocking. Null is
    // allowed.
    static void discard(std::shared_ptr<Communicator> communicator);

    // For where NCCL may lack device memory: ends the idle communicators all of whose processes are in `group` too;
    // each of them calls this, since NCCL releases none before the others on its host have ended it. ending() tells
    // whether something that is no longer used has its memory still. Local and non-blocking.
    static bool has_idle_within(const Group& group);
    static void end_idle_within(const Group& group);
    static bool ending();

    // start_end() starts to destroy a communicator that is not to be kept idle; all members call it. Returns true while
    // that is under way. step_end() returns true when it is destroyed. One that is passed to finish_ending() before
    // that is waited for by end_all().
    bool start_end();
    bool step_end();
    static void finish_ending(std::shared_ptr<Communicator> communicator);
    static void count_evicted();  // for the report, when p2p evicts a communicator

    // The number of the communicators that are made with this unique id: the same on all members, never 0.
    static std::uint64_t id_of(const UniqueId& unique);

    // Destroys all remaining communicators, at MPI_Finalize; all members call it. Leaves those alone that do not end in
    // time.
    static void end_all();

    static Counters counters();

    const Group& group() const { return group_; }
    int rank() const { return first_; }  // of the first member of this process
    int size() const { return static_cast<int>(group_.size()); }
    std::uint64_t id() const { return id_; }
    std::size_t members() const { return device_streams_.size(); }  // of this process
    ncclComm* handle(std::size_t member = 0) const;
    device::Stream& device_stream(std::size_t member = 0) { return device_streams_[member]; }
    device::Context context(std::size_t member = 0) const { return device_streams_[member].context(); }

    // Tells whether something may be launched: it has been made, and neither aborted nor ended.
    bool usable() const;
    bool alive() const;  // the contexts of all members still exist

    // To be held while the handles are used and another thread might call abort().
    std::unique_lock<std::mutex> hold_handles();

    // While an operation is between enter() and leave(), the communicator is neither reused nor destroyed, and what
    // `operation` owns stays until NCCL has let go of it, also when the communicator is aborted.
    void enter(std::shared_ptr<void> operation);
    void leave(const void* operation);
    bool in_use() const;

    // Launches something: `queue` puts it on the streams and returns "" or the error. It is called here, unless NCCL
    // has to connect ranks first: then it is called on another thread, and must own all that it uses. Nothing else may
    // be launched until launched() returns something. Each launch that has succeeded is followed by ended(). `shape` is
    // Job::shape(), `steps` is how often `queue` calls NCCL. The caller holds the handles.
    //
    // Returns false where ranks have to be connected and something is under way: to be tried again when that has ended.
    // A thread that waits for ranks cannot be called back, and only ncclCommAbort, which must not run beside it, ends
    // what waits on the GPU for a rank that has failed. So nothing is on the GPU while ranks are connected: where there
    // are several steps, those of the later ones are connected before the first.
    bool launch(std::span<const Peers> peers, std::uint64_t shape, std::size_t steps,
                std::function<std::string()> queue);
    std::optional<std::string> launched();  // nothing while the launch is under way; "" or its error afterwards
    void ended() { --under_way_; }          // what was launched is done or given up; the caller holds the handles

    // The state of all work under way (ncclResult_t). The caller holds the handles. An operation counts as successful
    // only if this is asked after its streams have come to their end: NCCL ends the streams' work also when it fails.
    int state() const;
    std::string describe(int result) const;  // in words

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
    bool may_be_explained() { return failures_ != nullptr && failures_->may_be_explained(); }

    // To be called after an error on any member: tells the other members, unless they are how it became known, and
    // aborts the communicator.
    void fail(const std::string& why);

    // Why the communicator has been aborted, as far as is known. The caller holds the handles.
    std::string why_unusable() const;

    // Has NCCL release all resources (ncclCommAbort), on another thread. Nothing can be launched afterwards. `why` is
    // what fail() tells the others later.
    void abort();
    void abort(const std::string& why);

  private:
    struct Handles;
    struct Connected;  // of one member: the ranks to and from which NCCL has connections
    Communicator(const Plan& plan);
    std::string begin_member(const Plan& plan, std::size_t member);
    std::vector<Peers> not_connected(std::span<const Peers> peers) const;
    std::string greet(const std::vector<Peers>& peers);
    void know(std::uint64_t shape);
    bool begin_abort();

    const Group group_;
    const int first_;
    const std::uint64_t id_;
    const std::shared_ptr<Handles> handles_;  // shared with the threads that are inside NCCL
    std::vector<device::Stream> device_streams_;
    std::vector<std::shared_ptr<Background>> making_;  // by member, until the communicator is made
    std::shared_ptr<Background> launching_, ending_;
    std::string launch_failure_;
    std::uint64_t launching_shape_ = 0;
    std::set<std::uint64_t>
        shapes_;         // of the collectives for which NCCL has connected the ranks, where it does so late
    int under_way_ = 0;  // launches that have not ended
    std::vector<Connected> connected_;
    std::atomic<bool> made_{false};
    std::unique_ptr<Failures> failures_;
    std::string failure_;                     // the first failure; guarded by the handles' mutex
    std::atomic<bool> failure_known_{false};  // all members know of the failure, or the message is on its way
};

}  // namespace swy::nccl
