// Communicators with processes that were not there, or not known to each other: spawn, get_parent, accept and connect,
// join. Large device buffers work on each, and on what is merged from it.
// clang-format off
// launch: -n 2 --gpus 4
// launch: -n 3 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -x VGPU_JITTER=3
// launch: -n 2 --gpus 2 -x VGPU_NCCL_VERSION=2.18
// test-timeout: 90
// clang-format on
#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

// Merges what it is given, and ends it. The first group comes first.
void use_and_end(MPI_Comm& between, bool first_group, const char* what) {
    failures += comm_test::Use(between, what).all(first_group);
    MPI_Comm merged = MPI_COMM_NULL;
    MPI_Intercomm_merge(between, first_group ? 0 : 1, &merged);
    failures += comm_test::Use(merged, std::string(what) + ", merged").all();
    // What the others have seen.
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, merged);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&between);
}

// The arguments of env(1) that start the program with this process's settings: Open MPI gives spawned processes
// mpirun's environment, without what it was told by -x, and an MPI_Info value is too short for them.
std::vector<std::string> with_environment(const char* program) {
    std::vector<std::string> arguments;
    for (const char* name : {"LD_PRELOAD", "LD_LIBRARY_PATH", "VGPU_COUNT", "VGPU_NODE", "VGPU_JITTER",
                             "VGPU_NCCL_VERSION", "SWITCHYARD_P2P_COMM"})
        if (const char* value = std::getenv(name))
            arguments.push_back(std::string(name) + "=" + value);
    arguments.insert(arguments.end(), {program, "--child"});
    return arguments;
}

void spawn(const char* program) {
    std::vector<std::string> words = with_environment(program);
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    char env[] = "/usr/bin/env";
    MPI_Comm between = MPI_COMM_NULL;
    MPI_Comm_spawn(env, arguments.data(), 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    use_and_end(between, true, "MPI_Comm_spawn");

    char* programs[] = {env, env};
    char** all_arguments[] = {arguments.data(), arguments.data()};
    const int counts[] = {1, 2};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm_spawn_multiple(2, programs, all_arguments, counts, infos, 0, MPI_COMM_WORLD, &between,
                            MPI_ERRCODES_IGNORE);
    use_and_end(between, true, "MPI_Comm_spawn_multiple");
}

// The lower half of the ranks accepts, the upper half connects.
void meet() {
    const bool accepts = rank < size / 2;
    MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, accepts ? 0 : 1, rank, &half);
    char port[MPI_MAX_PORT_NAME] = {};
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int round = 0; round < 2; ++round) {
        if (accepts)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &between);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &between);
        use_and_end(between, accepts, "MPI_Comm_accept and connect");
    }
    if (rank == 0)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
}

int check(const char* what, int result) {
    if (result >= 0)
        return result;
    std::perror(what);
    std::_Exit(99);
}

// A connection of rank 0 and rank 1 over the loopback device.
int connection() {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    const int own = check("socket", socket(AF_INET, SOCK_STREAM, 0));
    if (rank == 0) {
        check("bind", bind(own, generic, length));
        check("listen", listen(own, 1));
        check("getsockname", getsockname(own, generic, &length));
        MPI_Send(&address.sin_port, 1, MPI_UINT16_T, 1, 0, MPI_COMM_WORLD);
        const int other = check("accept", accept(own, nullptr, nullptr));
        close(own);
        return other;
    }
    MPI_Recv(&address.sin_port, 1, MPI_UINT16_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check("connect", connect(own, generic, length));
    return own;
}

void join() {
    if (rank > 1)
        return;
    const int socket = connection();
    MPI_Comm between = MPI_COMM_NULL;
    MPI_Comm_join(socket, &between);
    if (between == MPI_COMM_NULL) {
        ++failures;
        std::fprintf(stderr, "MPI_Comm_join gave no communicator\n");
    } else {
        use_and_end(between, rank == 0, "MPI_Comm_join");
    }
    close(socket);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    failures += comm_test::Use(MPI_COMM_WORLD, "MPI_COMM_WORLD").all();
    if (argc > 1 && std::string_view(argv[1]) == "--child") {
        MPI_Comm parent = MPI_COMM_NULL;
        MPI_Comm_get_parent(&parent);
        use_and_end(parent, false, "MPI_Comm_get_parent");
    } else {
        spawn(argv[0]);
        meet();
        join();
    }
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
