// The wrappers by which a program asks whether MPI accepts device memory: MPIX_Query_cuda_support, and the key
// mpi_memory_alloc_kinds in the info of an object (MPI 4.1 section 12.4.3; the kinds of CUDA are named by the MPI
// Forum's side document on memory allocation kinds).
#include <mpi.h>

#include "call/job.hpp"
#include "device/device.hpp"
#include "mpi_compat/wrapper.hpp"
#include "settings/settings.hpp"

using namespace swy;

namespace {

constexpr const char* kKey = "mpi_memory_alloc_kinds";
constexpr const char* kWithDevices = "mpi,system,cuda,cuda:host,cuda:device,cuda:managed";

// A job without GPUs gets MPI's own answer. A driver that was loaded since MPI_Init counts; a driver watch that is open
// only for a report does not.
bool has_devices() {
    return settings::values().enabled && driver_watch::look() != driver_watch::State::kClosed &&
           (call::job_agrees || device::driver_state() == device::DriverState::kLoaded);
}

int answer(int code, MPI_Info* info) {
    return code == MPI_SUCCESS && has_devices() ? real::Info_set(*info, kKey, kWithDevices) : code;
}

}  // namespace

// mpi-ext.h declares it where Open MPI has it.
extern "C" SWY_EXPORT int MPIX_Query_cuda_support(void) {
    return has_devices() ? 1 : real::XQuery_cuda_support();
}
SWY_PAIR(MPIX_Query_cuda_support)

extern "C" SWY_EXPORT int MPI_Comm_get_info(MPI_Comm comm, MPI_Info* info_used) {
    return answer(real::Comm_get_info(comm, info_used), info_used);
}
SWY_PAIR(MPI_Comm_get_info)

extern "C" SWY_EXPORT int MPI_Win_get_info(MPI_Win win, MPI_Info* info_used) {
    return answer(real::Win_get_info(win, info_used), info_used);
}
SWY_PAIR(MPI_Win_get_info)

extern "C" SWY_EXPORT int MPI_File_get_info(MPI_File fh, MPI_Info* info_used) {
    return answer(real::File_get_info(fh, info_used), info_used);
}
SWY_PAIR(MPI_File_get_info)

#ifdef MPI_SESSION_NULL  // MPI 4.0
extern "C" SWY_EXPORT int MPI_Session_get_info(MPI_Session session, MPI_Info* info_used) {
    return answer(real::Session_get_info(session, info_used), info_used);
}
SWY_PAIR(MPI_Session_get_info)
#endif
