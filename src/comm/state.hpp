// What Switchyard knows of a communicator: an attribute of it, made on first need and freed with it.
// The router asks; NCCL communicators hang here.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/board.hpp"
#include "comm/tuned.hpp"
#include "device/device.hpp"
#include "route/reason.hpp"

namespace swy::carrier::nccl {
class Communicator;
}

namespace swy::route {
struct Repeat;
}

namespace swy::comm {

class Order;
class Places;

// What a communicator needs before NCCL can serve it, as one rank sees it; the agreement takes the largest.
enum class Setup : std::uint8_t {
    kNone,
    kTakeUp,  // what was begun when MPI made it is ready
    kMake,    // a device has changed, or what was there has failed
};

struct State {
    MPI_Comm handle = MPI_COMM_NULL;
    int rank = 0, size = 0;
    bool inter = false;  // intercommunicator
    bool foreign =
        false;  // has members outside this job's MPI_COMM_WORLD, whose settings and drivers this job has not agreed on
    std::uint64_t agreed_calls = 0;
    // What an agreement sends and receives. Here and not on the stack: one that timed out is still under way.
    std::array<std::int64_t, 9> ballot_mine{}, ballot_all{};
    // By which blocking calls agree, once some have; null where the ranks do not share memory, or have not tried yet.
    std::shared_ptr<Board> board;
    bool board_tried = false;
    std::shared_ptr<route::Repeat> repeat;  // of the calls of which this rank only tells, while a board is there

    // Peers' ranks in MPI_COMM_WORLD, by rank; empty until point-to-point asks (comm/world.hpp).
    std::vector<int> world;

    // The NCCL communicator that serves device buffers of this communicator, and on which device of this process.
    // Settled by establish().
    std::shared_ptr<carrier::nccl::Communicator> nccl;
    // Of the calls that do not block; made by all ranks together when there is a first NCCL communicator, and kept.
    std::shared_ptr<Order> order;
    bool duplicated = false;  // by MPI_Comm_idup, which may not be through: no order is made any more
    // Of the extension's calls on several buffers of a process; null before the first.
    std::shared_ptr<Places> places;
    int ordinal = -1;
    // The one that was begun when MPI made the communicator of another's members: on all ranks or on none. The first
    // agreement in which it is ready on all of them takes it up, one in which it has failed on any drops it.
    std::shared_ptr<carrier::nccl::Communicator> coming;
    // Why there is none, where a set-up was tried and all ranks found that there can be none with the devices they then
    // used.
    Reason obstacle = Reason::kNone;
    // Whether the job's tuning table is for the machine of these ranks (comm/tuned.hpp). Settled there too.
    Fit tuning = Fit::kNotAsked;
    Machine machine;

    // Is NCCL at work on one that calls would use, which they do not wait for? Asks NCCL.
    bool under_way() const;
    // What a call on `device` needs first.
    Setup setup_for(int device) const;
};

// The state of a valid communicator. nullptr when it cannot be had (out of memory, MPI not up).
State* of(MPI_Comm comm);
State* known(MPI_Comm comm);        // nullptr where nobody has asked for it yet
State* lately_used(MPI_Comm comm);  // nullptr but for the one that this thread has asked for last

// Called with each communicator that goes, before its state does: p2p has messages that belong to it.
using Farewell = void (*)(MPI_Comm comm);
extern Farewell on_free;

// Has the communicator a state? One that has been freed has none.
bool lives(MPI_Comm comm);

// While MPI frees a communicator. The program's attributes have callbacks then, which may pass device memory on it when
// its state has gone already: it gets another one, which MPI does not delete any more.
class Freeing {
  public:
    explicit Freeing(MPI_Comm comm);
    ~Freeing();
    Freeing(const Freeing&) = delete;
    Freeing& operator=(const Freeing&) = delete;
    int done(int code);                            // MPI's code, which comes back
    static void has(MPI_Comm comm, State* state);  // a new one, or nullptr where it goes

  private:
    const MPI_Comm comm_;
    Freeing* const outer_;  // a callback may free others
    State* late_ = nullptr;
};

// Called by lifecycle. start() makes the attribute key; stop() frees every state that the program has not freed.
int start();
void stop();

}  // namespace swy::comm
