// The sweep: every call of the table that carries buffers is made with device buffers. Where the call is staged or
// routed, the reference is the same call on host memory, in the same process. Used by sweep*.cpp alone.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "../collective_forms.hpp"

namespace sweep {

// What cases work with. Each rank has its own.
struct World {
    MPI_Comm comm = MPI_COMM_NULL;   // all ranks
    MPI_Comm ring = MPI_COMM_NULL;   // sources: previous rank, self; targets: next rank, self
    MPI_Comm inter = MPI_COMM_NULL;  // even ranks | odd ranks
    MPI_File file = MPI_FILE_NULL;   // opened by all ranks, etype MPI_INT
    MPI_File own = MPI_FILE_NULL;    // opened by this rank alone, etype MPI_INT
    int rank = 0, size = 0;
    int n = 0;  // elements of a block

    int next() const { return (rank + 1) % size; }
    int previous() const { return (rank + size - 1) % size; }
    bool even() const { return rank % 2 == 0; }
    int remote() const { return even() ? size / 2 : size - size / 2; }  // size of inter's other group
    int local() const { return size - remote(); }
};

using Ints = std::vector<int>;

// Buffers are of int; the first `device` of them may be device memory, the others are witnesses on the host.
struct Case {
    std::string call;     // "MPI_Gatherv"
    std::string variant;  // "in place"
    int device;
    Ints (*lengths)(const World&);
    int (*run)(const World&, int* const* buffers);  // the call's code
    forms::Form form = forms::Form::kBlocking;      // in which the call is made
};

std::vector<Case> send_receive_cases();
std::vector<Case> collective_cases();
std::vector<Case> intercommunicator_cases();
std::vector<Case> neighborhood_cases();
std::vector<Case> pack_cases();
std::vector<Case> file_cases();

// --- calls that are refused
// -----------------------------------------------------------------------------------------------------

enum class Asked { kNobody, kComm, kWin, kFile };

struct Fixture {
    int* device = nullptr;  // device memory
    int host[64] = {};
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Win win = MPI_WIN_NULL;
    MPI_Win made = MPI_WIN_NULL;
    MPI_File file = MPI_FILE_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    int rank = 0;  // as root: buffers that count at the root alone count on every rank
    int peer = 0;
    int counts[64], displs[64];
    MPI_Aint offsets[64];
    MPI_Datatype types[64];
};

struct Refused {
    const char* call;
    const char* buffer;  // the argument that is device memory
    Asked owner;         // whose error handler must be asked
    int (*run)(Fixture&);
};

std::vector<Refused> refused_calls();  // made from the table by write_refused.py

}  // namespace sweep
