// Starts the jobs of examples/prefill.c and decode.c by MPI_Comm_spawn, each with an MPI_COMM_WORLD of its own, which
// then meet by a port as jobs that mpirun started would. Arguments: prefill's program, decode's, and the folder in
// which they meet. Started plain: the jobs have the library, this program has not.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

// By env(1): a spawned process has mpirun's environment, and an MPI_Info value is too short for this.
MPI_Comm spawn(int ranks, std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    MPI_Comm job = MPI_COMM_NULL;
    MPI_Comm_spawn("/usr/bin/env", arguments.data(), ranks, MPI_INFO_NULL, 0, MPI_COMM_SELF, &job, MPI_ERRCODES_IGNORE);
    return job;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const std::string prefill = argv[1], decode = argv[2], folder = argv[3];
    const std::vector<std::string> settings(argv + 4, argv + argc);
    const auto start = [&](int ranks, const std::vector<std::string>& words) {
        std::vector<std::string> all = settings;
        all.insert(all.end(), words.begin(), words.end());
        return spawn(ranks, all);
    };
    MPI_Comm jobs[] = {start(2, {prefill, folder, "4"}), start(1, {decode, folder, "0", "20", "20"}),
                       start(2, {decode, folder, "100", "5"}), MPI_COMM_NULL};
    MPI_Comm_disconnect(&jobs[2]);  // it has gone
    jobs[2] = start(2, {decode, folder, "200", "5"});
    jobs[3] = start(4, {decode, folder, "300", "5"});
    for (MPI_Comm job : {jobs[1], jobs[2], jobs[3], jobs[0]})
        MPI_Comm_disconnect(&job);
    MPI_Finalize();
    return 0;
}
