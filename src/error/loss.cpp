#include "error/loss.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <numeric>

#include "call/resolve.hpp"
#include "real.hpp"

namespace swy::error {

constinit bool survives = false;

namespace {

// Of Open MPI 5's mpi.h; the headers of Open MPI 4.1 have neither these classes nor the functions.
constexpr int kProcessFailed = 75, kRevoked = 77;

struct Ulfm {
    int (*is_revoked)(MPI_Comm, int*) = nullptr;
    int (*revoke)(MPI_Comm) = nullptr;
    int (*get_failed)(MPI_Comm, MPI_Group*) = nullptr;
    int (*ack_failed)(MPI_Comm, int, int*) = nullptr;
    int (*shrink)(MPI_Comm, MPI_Comm*) = nullptr;
};
constinit Ulfm ulfm{};

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
}

MPI_Group group_with_ranks(MPI_Comm comm) {
    int inter = 0;
    real::Comm_test_inter(comm, &inter);
    MPI_Group group = MPI_GROUP_NULL;
    inter != 0 ? real::Comm_remote_group(comm, &group) : real::Comm_group(comm, &group);
    return group;
}

std::string in_words(const std::vector<int>& ranks) {
    if (ranks.size() == 1)
        return fmt::format("rank {} has failed", ranks.front());
    return fmt::format("rank {} and {} more have failed", ranks.front(), ranks.size() - 1);
}

}  // namespace

// The functions are there in every Open MPI 5; the variable is its own record of whether they have an effect.
void start_survival() {
    auto* const library = const_cast<link_map*>(real::libmpi());
    if (library == nullptr)
        return;
    const auto* enabled = static_cast<const bool*>(dlsym(library, "ompi_ftmpi_enabled"));
    survives =
        enabled != nullptr && *enabled && find(library, "PMPIX_Comm_is_revoked", ulfm.is_revoked) &&
        find(library, "PMPIX_Comm_revoke", ulfm.revoke) && find(library, "PMPIX_Comm_get_failed", ulfm.get_failed) &&
        find(library, "PMPIX_Comm_ack_failed", ulfm.ack_failed) && find(library, "PMPIX_Comm_shrink", ulfm.shrink);
}

bool is_revoked(MPI_Comm comm) {
    int revoked = 0;
    return survives && ulfm.is_revoked(comm, &revoked) == MPI_SUCCESS && revoked != 0;
}

void revoke(MPI_Comm comm) {
    ulfm.revoke(comm);
}

std::vector<int> failed_ranks(MPI_Comm comm) {
    MPI_Group failed = MPI_GROUP_NULL;
    if (!survives || ulfm.get_failed(comm, &failed) != MPI_SUCCESS)
        return {};
    int count = 0;
    real::Group_size(failed, &count);
    std::vector<int> ranks(static_cast<std::size_t>(count)), known;
    if (count > 0) {
        std::vector<int> places(ranks.size());
        std::iota(places.begin(), places.end(), 0);
        MPI_Group all = group_with_ranks(comm);
        real::Group_translate_ranks(failed, count, places.data(), all, ranks.data());
        real::Group_free(&all);
    }
    real::Group_free(&failed);
    for (const int rank : ranks)
        if (rank != MPI_UNDEFINED)  // of an intercommunicator's local group
            known.push_back(rank);
    return known;
}

Loss loss_of_survivor(MPI_Comm comm) {
    if (is_revoked(comm))
        return {kRevoked, "the communicator has been revoked"};
    const std::vector<int> failed = failed_ranks(comm);
    return failed.empty() ? Loss{} : Loss{kProcessFailed, in_words(failed)};
}

void acknowledge_failures(MPI_Comm comm) {
    int acknowledged = 0;
    int size = 0;
    real::Comm_size(comm, &size);
    ulfm.ack_failed(comm, size, &acknowledged);
}

MPI_Comm left_of(MPI_Comm comm) {
    if (!survives)
        return comm;
    MPI_Comm left = MPI_COMM_NULL;
    if (ulfm.shrink(comm, &left) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    real::Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    return left;
}

int class_of(const Owner& owner, int mpi_class) {
    if (!survives || owner.kind != Owner::Kind::kComm || owner.comm == MPI_COMM_NULL || mpi_class != MPI_ERR_OTHER)
        return mpi_class;
    const Loss loss = loss_of_survivor(owner.comm);
    return loss ? loss.mpi_class : mpi_class;
}

}  // namespace swy::error
