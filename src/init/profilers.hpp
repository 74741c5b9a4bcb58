// Tools of MPI's profiling interface (MPI 3.1 section 14.2) in this process, for the report: libraries, or the program
// itself, that define MPI_X and call PMPI_X.
#pragma once

#include <string>

namespace swy::real {

// Each as "FILE (MPI_Send and 3 more)", separated by "; ".
struct Profilers {
    std::string above;  // before Switchyard in the dynamic linker's order: they see the program's calls
    std::string below;  // after it: they see none of the calls that Switchyard has, whose own go to PMPI_X at once
};
Profilers profilers();

}  // namespace swy::real
