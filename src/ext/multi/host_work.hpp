// A collective on all slots by host MPI: device data is copied to host memory; the process's own slots are reduced
// there, or put side by side; one MPI collective does what remains between the processes; and the results are copied to
// where they belong. Steps that never block. Only collective.cpp uses this.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "comm/exchange.hpp"
#include "ext/multi/call.hpp"
#include "ext/multi/elements.hpp"
#include "staging/staging.hpp"

namespace swy::multi {

class HostWork {
  public:
    using Failure = staging::Failure;

    // Everything that may fail on this rank alone comes first, in prepare(). `kept` and `slots` are referred to and
    // must outlive this object, but for its destruction.
    HostWork(const Kept& kept, const SlotCounts& slots, int rank);
    ~HostWork();
    HostWork(const HostWork&) = delete;
    HostWork& operator=(const HostWork&) = delete;

    Failure prepare();
    Failure begin_copy_in();
    Failure query_in(bool& done);
    // Makes the collective between the processes: by an MPI collective on `comm`, with a null request where there is
    // nothing to do; or by messages, of whose end `exchange` tells. Returns MPI's code.
    int call(MPI_Comm comm, MPI_Request* request);
    int call(comm::Exchange& exchange);
    Failure finish_call();  // does what remains on this rank when that is complete
    Failure begin_copy_out();
    Failure query_out(bool& done);

    Failure failed(int mpi_code) const;  // the failure that MPI reports

  private:
    struct Slot {
        std::array<Operand, 2> operands;
        std::unique_ptr<staging::Staging> staging;
        const Operand& sent() const { return staging->operands()[0]; }
        const Operand& received() const { return staging->operands()[1]; }
    };
    struct Memory;  // what MPI's call uses

    int size() const { return slots_.all(); }
    int own() const { return slots_.count(rank_); }
    Failure failed(int mpi_class, const std::string& why) const;
    Failure each(Failure (*step)(staging::Staging&));
    Failure query(bool& done, pack::Direction direction);

    int fold_own(MPI_Count blocks);
    int fold_contributions();
    // By which of the two the call is made.
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
    const SlotCounts& slots_;
    const int rank_;
    const MPI_Op op_;  // as passed to host MPI
    std::vector<Slot> own_;
    std::unique_ptr<Memory> memory_;
};

}  // namespace swy::multi
