// What Switchyard knows of a communicator: an attribute of it, made on first need and freed with it. It owns what
// serves the communicator, such as an NCCL communicator.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "comm/agreement_interval.hpp"
#include "comm/shared_page.hpp"
#include "comm/tuned.hpp"
#include "device/device.hpp"

namespace swy::nccl {
class Communicator;
}

namespace swy::coll {
struct Repeat;
struct VoteExchange;
}  // namespace swy::coll

namespace swy::comm {

class LaunchOrder;
class BufferSlots;
class Setup;

struct Processes;  // of one or more communicators (comm/contribution.cpp)

struct State {
    MPI_Comm handle = MPI_COMM_NULL;
    int rank = 0, size = 0;
    bool inter = false;  // intercommunicator
    bool spans_jobs =
        false;  // has members outside this job's MPI_COMM_WORLD, whose settings and drivers this job has not agreed on
    MPI_Comm merged = MPI_COMM_NULL;   // of an intercommunicator (comm/merged.hpp); null where its groups span jobs, or
                                       // MPI_Comm_idup has made it
    MPI_Comm between = MPI_COMM_NULL;  // of a merged communicator: the intercommunicator that it serves
    std::uint64_t agreed_calls = 0;
    std::shared_ptr<coll::VoteExchange> votes;  // of the last blocking agreement; MPI keeps those of one given up
    // Some rank never came to an agreement, on which MPI is still at work: neither this state nor the communicator may
    // be freed.
    bool given_up = false;
    bool revoked = false;  // and the private communicators with it; only set where processes may be lost
    // Drawn with the launch order, or before the first set-up (launch_order.hpp): a number that none of the ranks has
    // had for another communicator, 0 until then; and whether all ranks are on one host.
    std::int64_t number = 0;
    bool one_host = false;
    // The shared page by which blocking calls agree, once some have; null where the ranks do not share memory, or have
    // not tried yet.
    std::shared_ptr<SharedPage> page;
    bool page_tried = false;
    std::shared_ptr<coll::Repeat> repeat;  // the last call of which this rank only published a record

    AgreementIntervals intervals;  // of blocking collectives whose size ranks do not know
    // The numbers of in-neighbours and out-neighbours in the process topology; -1 until ranks have agreed on such a
    // call.
    int sources = -1, targets = -1;

    Processes* processes = nullptr;  // null until contribution.hpp is asked for an id

    // The peers' ranks in MPI_COMM_WORLD, by rank; empty until point-to-point asks (comm/world.hpp).
    std::vector<int> world;

    // The NCCL communicator that serves device buffers of this communicator; `ordinal` is its device in this process.
    // Set by adopt_setup() (comm/collective_setup.hpp).
    std::shared_ptr<nccl::Communicator> nccl;
    // The launch order of the non-blocking calls; made by all ranks together when the communicator is made, or,
    // after MPI_Comm_idup, in the first large blocking collective, and kept.
    std::shared_ptr<LaunchOrder> order;
    bool duplicated = false;  // by MPI_Comm_idup, which may not be complete: no launch order is made any more
    // For the extension's calls on several buffers of a process; null before the first.
    std::shared_ptr<BufferSlots> slots;
    int ordinal = -1;
    // Why there is no NCCL communicator, where a set-up was tried and all ranks found that there can be none with the
    // devices that they then used.
    Reason obstacle = Reason::kNone;
    // Is the job's tuning table for the machine of these ranks (comm/tuned.hpp)? Set by the set-up, too.
    Fit tuning = Fit::kNotAsked;
    Machine machine;

    // The set-ups of the NCCL communicator: those that this rank has begun, and those whose result it has adopted. The
    // ranks begin the same ones, each when all have adopted the one before. One that was given up (SWITCHYARD_TIMEOUT)
    // is the last.
    std::atomic<std::uint64_t> setups_begun{0}, setups_ended{0};
    bool setup_given_up = false;
    std::shared_ptr<Setup> setup;  // begun, and not adopted. Under the engine's lock

    // Does a call on `device` need a set-up first? It does where this rank's device has changed, or the NCCL
    // communicator has failed.
    bool needs_setup(int device) const;
    bool nccl_failed() const;  // an operation on the NCCL communicator that it has
};

// Returns the state of a valid communicator, or nullptr when it cannot be had (out of memory, MPI not up).
State* of(MPI_Comm comm);
State* known(MPI_Comm comm);        // nullptr where the communicator has no state yet
State* lately_used(MPI_Comm comm);  // nullptr unless this thread's last of() was for `comm`

// For MPI_Comm_free and MPI_Comm_disconnect: has MPI an agreement under way on the communicator that was given up? Then
// the communicator stays with MPI and loses its state. Otherwise MPI would give its context to the next communicator,
// whose collectives would get the messages of that agreement; only some of Open MPI's layers for messages keep a
// communicator that is in use.
bool leave(MPI_Comm comm);

// Called with each communicator that is freed, before its state is: p2p has messages that belong to it.
using Farewell = void (*)(MPI_Comm comm);
extern Farewell on_free;

// Has the communicator a state? One that has been freed has none.
bool lives(MPI_Comm comm);

// Finds the communicators that have been revoked since the last time, and revokes their private ones (comm/losses.hpp).
// Returns whether there are any.
bool revoke_private_comms();

// Lives while MPI frees a communicator. The callbacks of the program's attributes run then, and may pass device memory
// on the communicator when its state has gone already: it gets another one, which MPI does not delete any more.
class Freeing {
  public:
    explicit Freeing(MPI_Comm comm);
    ~Freeing();
    Freeing(const Freeing&) = delete;
    Freeing& operator=(const Freeing&) = delete;
    int done(int code);                            // frees such a state; returns `code`, which is MPI's
    static void has(MPI_Comm comm, State* state);  // notes a new state, or nullptr where it is freed

  private:
    const MPI_Comm comm_;
    Freeing* const outer_;  // a callback may free others
    State* late_ = nullptr;
};

// Called by init/lifecycle.cpp. start() makes the attribute key; stop() frees every state that the program has not
// freed.
int start();
void stop();

}  // namespace swy::comm
