// A table of everything that a program can wait in while a large message needs this process; the messages must get
// through all the same (MPI 4.0 section 3.5, "Progress"). Test programs only.
#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <vector>

namespace progress_test {

// What a row works with. `waiter` is the rank that must wait in the call until `other` has had its message; further
// ranks take part in what is collective and have no messages.
struct Scene {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 0;
    int waiter = 0, other = 1;
    std::string path;  // of a file that is this scene's alone
    bool device_here = false;

    MPI_Comm made = MPI_COMM_NULL;
    MPI_Win win = MPI_WIN_NULL;
    MPI_File file = MPI_FILE_NULL;
    std::vector<int> out = std::vector<int>(64, 1), in = std::vector<int>(64);

    bool waits() const { return rank == waiter; }
    bool is_other() const { return rank == other; }
};

using Act = void (*)(Scene&);
struct Row {
    const char* name;
    Act act;
    Act prepare = nullptr;  // before the message is on its way
    Act clean_up = nullptr;
    bool with_threads = true;
};

std::span<const Row> collective_rows();
std::span<const Row> communicator_rows();
std::span<const Row> message_rows();
std::span<const Row> window_rows();
std::span<const Row> file_rows();

}  // namespace progress_test
