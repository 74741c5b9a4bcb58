// Groups by name, driven by groups.test. With names for arguments, each rank makes the communicator of each that it is
// in and of no other, uses it, and says who is in it: "NAME: ranks of MPI_COMM_WORLD". For --outside NAME rank 0 makes
// no call, and meets the others only when they have used theirs. --declare NAME first has the program declare all ranks
// in reverse order by that name; --error NAME expects an error, and says its class and text.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

template <typename Function>
Function find(const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) {
        std::fprintf(stderr, "there is no %s\n", name);
        std::exit(1);
    }
    return reinterpret_cast<Function>(found);
}

int from_name(const char* name, MPI_Comm* comm) {
    static const auto function = find<int (*)(const char*, MPI_Comm*)>("MPIX_Comm_from_name");
    return function(name, comm);
}

int declare(const char* name, MPI_Group group) {
    static const auto function = find<int (*)(const char*, MPI_Group)>("MPIX_Group_declare");
    return function(name, group);
}

void declare_all_backwards(const char* name) {
    MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    int range[1][3] = {{size - 1, 0, -1}};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    failures += declare(name, world) != MPI_SUCCESS;  // the next one takes its place
    MPI_Group_range_incl(world, 1, range, &group);
    failures += declare(name, group) != MPI_SUCCESS;
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

void say_error(const char* name) {
    MPI_Comm comm = MPI_COMM_SELF;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int code = from_name(name, &comm);
    int error_class = MPI_SUCCESS, length = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Error_class(code, &error_class);
    MPI_Error_string(code, text, &length);
    std::printf("%d %s: %s: %s\n", rank, name, error_class == MPI_ERR_ARG ? "MPI_ERR_ARG" : "another class", text);
    failures += comm != MPI_COMM_NULL && code == MPI_SUCCESS;
}

void use(MPI_Comm comm, const char* name, bool device) {
    int members = 0;
    char called[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Comm_size(comm, &members);
    MPI_Comm_get_name(comm, called, &length);
    std::vector<int> ranks(static_cast<std::size_t>(members));
    MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, comm);
    std::string text = std::to_string(rank) + " " + called + ":";
    for (const int member : ranks)
        text += " " + std::to_string(member);
    std::printf("%s\n", text.c_str());
    if (device)
        failures += comm_test::Use(comm, name).all();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const bool device = std::getenv("VGPU_COUNT") != nullptr;
    if (device)
        gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--declare") {
            declare_all_backwards(argv[++i]);
        } else if (word == "--error") {
            say_error(argv[++i]);
        } else if (word == "--outside") {
            ++i;
            if (rank == 0) {
                MPI_Barrier(MPI_COMM_WORLD);
                continue;
            }
            MPI_Comm comm = MPI_COMM_NULL;
            failures += from_name(argv[i], &comm) != MPI_SUCCESS || comm == MPI_COMM_NULL;
            use(comm, argv[i], device);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Comm_free(&comm);
        } else {
            MPI_Comm comm = MPI_COMM_SELF, again = MPI_COMM_SELF;
            failures += from_name(argv[i], &comm) != MPI_SUCCESS || from_name(argv[i], &again) != MPI_SUCCESS;
            if (comm == MPI_COMM_NULL)
                std::printf("%d %s: none\n", rank, argv[i]);
            else
                use(comm, argv[i], device);
            for (MPI_Comm* made : {&comm, &again})
                if (*made != MPI_COMM_NULL)
                    MPI_Comm_free(made);
        }
    }
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
