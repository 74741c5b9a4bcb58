// A decode job (examples/decode.c) that asks for a sequence and is killed before it receives it. Argument: the folder
// in which the jobs meet.
// test-timeout: 30
#include <mpi.h>

#include <csignal>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
    constexpr int kAskTag = 100;
    MPI_Init(&argc, &argv);
    const std::string folder = argv[1];
    std::string port;
    while (!std::getline(std::ifstream(folder + "/port"), port)) {
    }
    std::ofstream(folder + "/arrival.deserter").flush();
    while (!std::ifstream(folder + "/enter.deserter")) {
    }
    MPI_Comm prefill = MPI_COMM_NULL;
    MPI_Comm_connect(port.c_str(), MPI_INFO_NULL, 0, MPI_COMM_SELF, &prefill);
    const int sequence = 7;
    MPI_Send(&sequence, 1, MPI_INT, 0, kAskTag, prefill);
    raise(SIGKILL);
    return 1;
}
