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

// A fault of Switchyard's, not mended yet (NEWS.md): SWITCHYARD_SYNC=device waits for the device without MPI's
// progress. Over UCX a launch token may not have left the process by then, and the device waits for the rank that wants
// it.
inline bool may_hang_in_device_sync() {
    const char* sync = std::getenv("SWITCHYARD_SYNC");
    return sync != nullptr && std::string_view(sync) == "device" && over("ucx");
}

}  // namespace mpi_test
