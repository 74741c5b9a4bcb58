// What the extension's calls on several buffers of a process (src/multi) keep with a communicator. A place is one
// buffer of one process; places are numbered by rank, then by index. Of a communicator that has been used so: a private
// communicator and an order, as comm/order.hpp has them for other collectives, once a call that blocks has been made,
// and the NCCL communicator of its places.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "carrier/nccl/local_members.hpp"
#include "comm/order.hpp"
#include "comm/state.hpp"
#include "route/reason.hpp"

namespace swy::comm {

// All under the engine's lock, but for what waits, during which the process makes no other such call on the
// communicator.
class Places {
  public:
    static std::shared_ptr<Places> of(State& state);  // made at the first use. Local
    ~Places();
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;

    // The private communicator, made by the first call that blocks: MPI makes none without waiting. (Open MPI 4.1's
    // MPI_Comm_idup goes on in collectives on the communicator itself, at any time, which then meet the program's.)
    // What is begun before, does with messages what others do there (exchange.hpp). Collective. MPI's code.
    int make_order(State& state);
    const std::shared_ptr<Order>& order() const { return order_; }

    // Calls in the program's order; each makes its calls on the private communicator, or launches, when it is the
    // first.
    void enter(const void* call) { queue_.push_back(call); }
    bool first(const void* call) const { return !queue_.empty() && queue_.front() == call; }
    void leave(const void* call);

    // Begun on the communicator itself, which must not be freed before their end, nor while calls are queued. await()
    // waits with MPI's progress, not under the lock.
    int exchanges = 0;
    void await();

    // How many buffers each rank has, of the last call; empty before. What a call prepares before it has heard of the
    // others is prepared for these.
    std::vector<int> counts;

    // Must `devices`, this process's in order, get an NCCL communicator first? And what keeps these from one.
    bool needs_setup(const std::vector<int>& devices) const;
    Reason obstacle = Reason::kNone;
    std::shared_ptr<carrier::nccl::LocalMembers> nccl;

    // Attempts to get one (attempt.hpp), of this process: all ranks begin the same ones, and each when it has ended the
    // one before. They set what is above, alike on all ranks but not at the same time.
    std::uint64_t begun = 0, ended = 0;
    void begin_anew(std::vector<int> devices, Reason why);

    std::uint64_t calls = 0;  // the number of the next one

    void retire();  // the communicator is being freed: after await()

  private:
    Places() = default;
    std::shared_ptr<Order> order_;
    std::deque<const void*> queue_;
    bool tried_ = false;
    std::vector<int> devices_;  // of this process, for which `nccl` or `obstacle` is
};

}  // namespace swy::comm
