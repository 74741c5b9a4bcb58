// MPIX_Device_suggest gives the ranks of a node different devices, shares them evenly where there are too few, counts
// only the processes of its communicator, and says where there is none; MPIX_Device_suggest_multi gives each of the
// others to one rank. The argument is the number of devices.
// clang-format off
// launch: -n 4 --gpus 4 -- 4
// launch: -n 5 --gpus 2 -- 2
// launch: -n 2 --gpus 7 -- 7
// launch: -n 2 --gpus 1 -- 1
// launch: -n 2 -- 0
// test-timeout: 60
// clang-format on

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int failures = 0;

void expect(bool good, const char* what) {
    if (good)
        return;
    ++failures;
    std::fprintf(stderr, "suggest: %s\n", what);
}

using Suggest = int (*)(MPI_Comm, int*);

std::vector<int> suggested(Suggest suggest, MPI_Comm comm) {
    int size = 0;
    int mine = -77;
    MPI_Comm_size(comm, &size);
    expect(suggest(comm, &mine) == MPI_SUCCESS, "returns MPI_SUCCESS");
    std::vector<int> all(static_cast<std::size_t>(size));
    MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, comm);
    return all;
}

using Several = int (*)(MPI_Comm, int, int*, int*);

// Each device belongs to one rank, or each rank has one; and in each rank the first is the one that suits it best.
void check_several(Several several, MPI_Comm comm, int best, int devices) {
    int size = 0;
    MPI_Comm_size(comm, &size);
    std::vector<int> mine(static_cast<std::size_t>(devices) + 1, -77);
    int number = -77;
    expect(several(comm, devices, mine.data(), &number) == MPI_SUCCESS, "returns MPI_SUCCESS");
    expect(number == (devices == 0 ? 0 : std::max(1, number)) && number <= devices, "as many as there are at most");
    expect(mine.back() == -77, "does not write behind the list");
    expect(number == 0 || mine[0] == best, "the one that suits best is the first");
    std::vector<int> has(static_cast<std::size_t>(devices));
    for (int i = 0; i < number; ++i)
        ++has[static_cast<std::size_t>(mine[static_cast<std::size_t>(i)])];
    MPI_Allreduce(MPI_IN_PLACE, has.data(), devices, MPI_INT, MPI_SUM, comm);
    if (size <= devices)
        expect(std::all_of(has.begin(), has.end(), [](int owners) { return owners == 1; }), "one rank has each device");
    else
        expect(devices == 0 || number == 1, "a device each where there are more ranks");
    int fewer = -77;
    std::vector<int> first(1, -77);
    expect(several(comm, 1, first.data(), &fewer) == MPI_SUCCESS && fewer == number, "counts what it has no room for");
    expect(number == 0 ? first[0] == -77 : first[0] == best, "stores what there is room for");
    expect(several(comm, 0, nullptr, &fewer) == MPI_SUCCESS && fewer == number, "only counts");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(several(comm, 1, nullptr, &fewer), &error_class);
    expect(error_class == MPI_ERR_ARG, "refuses a list that is not there");
    MPI_Error_class(several(comm, -1, first.data(), &fewer), &error_class);
    expect(error_class == MPI_ERR_COUNT, "refuses a negative number");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

void check_even(const std::vector<int>& all, int devices) {
    const int ranks = static_cast<int>(all.size());
    for (int device = 0; device < devices; ++device) {
        const auto load = std::count(all.begin(), all.end(), device);
        expect(load >= ranks / devices && load <= (ranks + devices - 1) / devices, "devices are shared evenly");
    }
    for (const int device : all)
        expect(devices == 0 ? device == MPI_UNDEFINED : device >= 0 && device < devices, "a device that there is");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const int devices = std::atoi(argv[1]);
    const auto suggest = reinterpret_cast<Suggest>(dlsym(RTLD_DEFAULT, "MPIX_Device_suggest"));
    const auto several = reinterpret_cast<Several>(dlsym(RTLD_DEFAULT, "MPIX_Device_suggest_multi"));
    if (suggest == nullptr || several == nullptr) {
        std::fprintf(stderr, "suggest: the library does not have it\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const std::vector<int> all = suggested(suggest, MPI_COMM_WORLD);
    check_even(all, devices);
    expect(suggested(suggest, MPI_COMM_WORLD) == suggested(suggest, MPI_COMM_WORLD), "the same when asked again");
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check_several(several, MPI_COMM_WORLD, all[static_cast<std::size_t>(rank)], devices);
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    check_even(suggested(suggest, half), devices);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(suggest(half, nullptr), &error_class);
    expect(error_class == MPI_ERR_ARG, "refuses a null pointer");
    MPI_Comm_free(&half);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
