// Which of Open MPI's layers for messages between processes was asked for (tests/environment: SWY_PML). Test programs
// leave out by it what that layer gets wrong by itself.
#pragma once

#include <cstdlib>
#include <string_view>

namespace mpi_test {

inline bool over(std::string_view layer) {
    const char* pml = std::getenv("OMPI_MCA_pml");
    return pml != nullptr && layer == pml;
}

}  // namespace mpi_test
