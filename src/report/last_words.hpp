// What is said of a job that ends before MPI_Finalize. The flight recorder's files hold all there is to say, so a
// process that a signal ends, or that exits, formats nothing itself: it starts `switchyard ended`, which reads the
// files of the job's processes on this host (cli/ended.cpp) and says once for all of them what they were in, and the
// report as far as it came.
#pragma once

#include <string>

namespace swy::report {

// From MPI_Init to MPI_Finalize of a process that records. Takes the signals that end a process for which the program
// has no handler: SIGTERM, SIGINT, SIGXCPU, those of faults (Open MPI's handlers of these, which print the stack,
// follow), and SIGUSR2, after which the process goes on. `report`: the file of SWITCHYARD_REPORT=json:FILE, "-" for
// standard error, "" for none. `write_trace`, where it is not null, is called in a copy of a process that ends, which
// may do all that a signal handler may not, and is given some seconds.
void begin_last_words(const std::string& report, void (*write_trace)());
void end_last_words();  // the signals are as they were

// Called before what ends the job: `why` names it.
void say_last_words(const char* why);

// Has the same said of a job that goes on, without the report.
void say_what_ranks_are_in(const char* why);

}  // namespace swy::report
