// A collective on all places by host MPI: what is on devices is copied to host memory; the process's own places are
// reduced, or put side by side, there; one collective of MPI's does what is left between the processes; and the results
// are copied to where they belong. Steps that never block, for collective.cpp alone.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "carrier/staged/staging.hpp"
#include "comm/exchange.hpp"
#include "multi/call.hpp"
#include "multi/elements.hpp"

namespace swy::multi {

class HostWork {
  public:
    using Failure = carrier::staged::Failure;

    // All that may fail here alone comes first, in prepare(). `kept` and `places` are referred to.
    HostWork(const Kept& kept, const PlaceCounts& places, int rank);
    ~HostWork();
    HostWork(const HostWork&) = delete;
    HostWork& operator=(const HostWork&) = delete;

    Failure prepare();
    Failure begin_copy_in();
    Failure query_in(bool& done);
    // By a collective of MPI's on `comm`, whose request is null where nothing is to be done; or by messages, whose end
    // `exchange` knows. MPI's code.
    int call(MPI_Comm comm, MPI_Request* request);
    int call(comm::Exchange& exchange);
    Failure finish_call();  // what is left here, when that is complete
    Failure begin_copy_out();
    Failure query_out(bool& done);

    static Failure failed(CallId call, int mpi_code);  // what MPI says

    void abandon();  // MPI still works on the memory: it stays

  private:
    struct Place {
        std::array<Operand, 2> operands;
        std::unique_ptr<carrier::staged::Staging> staging;
        const Operand& sent() const { return staging->operands()[0]; }
        const Operand& received() const { return staging->operands()[1]; }
    };
    struct Memory;  // what MPI's call works on

    int size() const { return places_.all(); }
    int own() const { return places_.count(rank_); }
    Failure each(Failure (*step)(carrier::staged::Staging&));
    Failure query(bool& done, carrier::staged::Direction direction);

    int fold_own(MPI_Count blocks);
    int fold_contributions();
    // Who does it: one of the two.
    struct By {
        comm::Exchange* exchange = nullptr;
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Request* request = nullptr;
    };
    int call(const By& by);
    int allreduce(const By& by);
    int reduce_to_root(const By& by);
    int reduce_scatter(const By& by);
    int bcast(const By& by);
    int allgather(const By& by);
    int alltoall(const By& by);
    int count_contributors();
    int gather(const By& by, const void* mine, int number, void* all, int root);
    int exchange(const By& by, void* sent, void* received);

    void hand_out_reduced(const Operand& from);
    void hand_out_moved();
    void make_block(MPI_Datatype of, int count);

    const Kept& kept_;
    const PlaceCounts& places_;
    const int rank_;
    const MPI_Op op_;  // as host MPI has it
    std::vector<Place> own_;
    std::unique_ptr<Memory> memory_;
};

}  // namespace swy::multi
