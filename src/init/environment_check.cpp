#include "init/environment_check.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string_view>

#include "real.hpp"

namespace swy::init {

namespace {

constexpr std::chrono::seconds kPatience{10};  // all ranks have met in the real MPI_Init just before

std::string file_of(const void* address) {
    Dl_info info;
    return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// A library that passes calls on to Open MPI is linked with it.
bool is_on_open_mpi(const std::string& file) {
    void* library = dlopen(file.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr)
        return true;  // the program itself: nothing is known of it
    const bool found = dlsym(library, "ompi_mpi_comm_world") != nullptr;
    dlclose(library);
    return found;
}

void say_who_may_be_missing() {
    int rank = 0;
    real::Comm_rank(MPI_COMM_WORLD, &rank);
    static const char kHere = 0;
    std::fprintf(stderr,
                 "switchyard: rank %d has waited %d s in MPI_Init for other ranks. Those that were started without "
                 "Switchyard never come: give it to all, by mpirun -x LD_PRELOAD=%s or by switchyard run.\n",
                 rank, static_cast<int>(kPatience.count()), file_of(&kHere).c_str());
}

}  // namespace

std::string other_mpi() {
    const void* next = dlsym(RTLD_NEXT, "PMPI_Init");
    if (next == nullptr)
        return {};
    static const char kHere = 0;
    const std::string theirs = file_of(next), ours = file_of(&kHere);
    if (std::string_view(theirs).substr(theirs.rfind('/') + 1).starts_with("libswitchyard"))
        return fmt::format(
            "two Switchyards are in this process: {} takes no part, {} does. Name one of them in LD_PRELOAD, and none "
            "for a program that is linked with it (swycc)",
            ours, theirs);
    if (is_on_open_mpi(theirs))
        return {};
    return fmt::format(
        "this program is linked with another MPI, {}: {} works with Open MPI (libmpi.so.40) and takes no part. Compile "
        "and link the program with Open MPI's mpicc; `switchyard doctor PROGRAM` shows what it is linked with",
        theirs, ours);
}

int first_meeting(int mine, int& most) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = real::Iallreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
    const auto begin = std::chrono::steady_clock::now();
    int done = 0;
    for (bool said = false; code == MPI_SUCCESS && done == 0;) {
        code = real::Test(&request, &done, MPI_STATUS_IGNORE);
        if (done == 0 && !said && std::chrono::steady_clock::now() - begin > kPatience) {
            said = true;
            say_who_may_be_missing();
        }
    }
    return code;
}

}  // namespace swy::init
