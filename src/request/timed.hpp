// The time that the program spends in the calls that complete requests and in MPI_Barrier, for the report and the
// trace. src/init alone calls this file.
#pragma once

namespace swy::request::complete {

// From now on these calls are timed and counted until report::covers_host_calls is false again; those that wait are
// in the trace too. Where this is not called, nothing is in their way. Once in a process, after MPI_Init's other work.
void time_calls();

}  // namespace swy::request::complete
