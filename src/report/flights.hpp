// What the flight recorders of this host's processes hold (flight_file.hpp): for `switchyard status`, and for the
// watchdog of a job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "call/reason.hpp"
#include "call_ids.hpp"
#include "report/counters.hpp"

namespace swy::report {

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
    double age = 0;                // seconds since the end of MPI_Init
    bool lives = false;            // now, or when it was saved
    bool pid_is_anothers = false;  // its number is that of a later process now
    std::string ended_by;          // what ended it without MPI_Finalize: a signal, "MPI_Abort", "exit"; "" not known
    std::int64_t ends = 0;         // when that was, in nanoseconds of the host's clock
    std::uint64_t begun = 0, unrecorded = 0;
    std::vector<FlightOperation> operations;  // by number
    bool counts = false;                      // are its calls counted for the report?
    std::vector<Cell> counted;
};

// Reads the flights in a folder. What cannot be read is told in `problems`, a sentence each; files of other users are
// passed over, and what is no flight.
std::vector<Flight> read_flights(const std::string& folder, std::vector<std::string>& problems);

// Copies the flights of this host to a folder, made if need be. Returns "" or why it cannot.
std::string save_flights(const std::vector<Flight>& flights, const std::string& folder);

// Tells whether the caller is to say, on standard error, what a job's processes on this host are in: of all that ask
// because a process has ended the first one, for whose end the others wait; of those that ask while they run one in
// `seconds`. `first` is the job's first process here.
bool may_tell_end(const Flight& first);
bool may_tell(const Flight& first, double seconds);

// What can be said of a job from all its processes together: which ranks have not come to a collective that others are
// in. A sentence each.
std::vector<std::string> findings(const std::vector<const Flight*>& job);

// Returns "ended without MPI_Finalize" and what ended it, of a process that does not live.
std::string end_in_words(const Flight& flight);

// Returns an operation as a clause: "MPI_Bcast number 17 on MPI_COMM_WORLD (4 ranks), 1.0 MiB, nccl"; where it is open,
// ", no transport chosen yet" may stand in place of the last two.
std::string in_words(const FlightOperation& operation);

}  // namespace swy::report
