#include "coll/collective.hpp"

#include <fmt/format.h>

#include <array>
#include <new>
#include <utility>

#include "real.hpp"

namespace swy::coll {

std::string in_call(CallId call, const comm::State* comm, int rank, int size, const std::string& why) {
    std::array<char, MPI_MAX_OBJECT_NAME> comm_name{};
    int length = 0;
    if (comm != nullptr)
        real::Comm_get_name(comm->handle, comm_name.data(), &length);
    return fmt::format("{} on rank {} of {} ({} ranks): {}", name(call), rank,
                       length > 0 ? comm_name.data() : "a communicator without name", size, why);
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
