#include "coll/collective.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "call/comm_name.hpp"

namespace swy::coll {

std::string in_call(CallId call, const comm::State* comm, int rank, int size, const std::string& why) {
    return fmt::format("{} on rank {} of {} ({} ranks): {}", name(call), rank,
                       comm != nullptr ? call::comm_name(comm->handle) : "a communicator that was freed", size, why);
}

std::string Collective::describe() const {
    return in_call(call(), comm_state(), rank_, size_, waits_for());
}

bool Collective::step() {
    try {
        return advance();
    } catch (const std::bad_alloc&) {
        fail_here(MPI_ERR_NO_MEM, "no host memory left");
        return true;
    }
}

void Collective::fail_here(int mpi_class, const std::string& why) {
    failing(why);
    progress::Outcome outcome;
    outcome.mpi_class = mpi_class;
    outcome.text = in_call(call(), comm_state(), rank_, size_, why);
    why_ = why;
    end(std::move(outcome));
}

}  // namespace swy::coll
