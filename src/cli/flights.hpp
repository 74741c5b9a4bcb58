// What the flight recorders of processes hold (report/flight_file.hpp), as `switchyard status` shows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "call/reason.hpp"
#include "call_ids.hpp"
#include "report/counters.hpp"

namespace swy::cli {

struct FlightOperation {
    std::uint64_t number = 0;  // among those of the process
    CallId call{};
    double age = 0;        // seconds since its begin
    double ended_ago = 0;  // where it has ended
    bool ended = false, routed = false;
    Carrier carrier{};  // once routed
    Reason reason{};
    std::uint64_t bytes = 0;
    std::string communicator;  // its name; "" where it has none
    int communicator_ranks = 0;
    std::int64_t communicator_id = 0;  // the same on all ranks, and no other's; 0 where it is not known
    std::uint64_t collective = 0;      // which one of those of the communicator that agree; 0 for others
    int peer, tag;                     // report::flight::kNone, kAny, or of a message
};

struct Flight {
    std::string path, host, job, program;
    std::string mpi, nccl, driver, device;  // as the report has them; "" where not known (yet)
    int pid = 0, rank = 0, ranks = 0;
    bool lives = false;  // now, or when it was saved
    std::uint64_t begun = 0, unrecorded = 0;
    std::vector<FlightOperation> operations;  // by number
    bool counts = false;                      // are its calls counted for the report?
    std::vector<report::Cell> counted;
};

// Reads the flights in a folder. What cannot be read is told in `problems`, a sentence each; files of other users are
// passed over, and what is no flight.
std::vector<Flight> read_flights(const std::string& folder, std::vector<std::string>& problems);

// Copies the flights of this host to a folder, made if need be. Returns "" or why it cannot.
std::string save_flights(const std::vector<Flight>& flights, const std::string& folder);

// Tells whether the caller is to say, on standard error, what a job's processes on this host are in: the first one of
// them that asks because a process has ended, and of those that were asked while they run (`ended`: false) one a
// second.
bool may_tell(const Flight& first, bool ended);

// What can be said of a job from all its processes together: which ranks have not come to a collective that others are
// in. A sentence each.
std::vector<std::string> findings(const std::vector<const Flight*>& job);

// Returns an operation as a clause: "MPI_Bcast number 17 on MPI_COMM_WORLD (4 ranks), 1.0 MiB, nccl"; where it is open,
// ", no transport chosen yet" may stand in place of the last two.
std::string in_words(const FlightOperation& operation);

}  // namespace swy::cli
