// libnccl.so.2, loaded when the first communicator needs it. Only this folder includes nccl.h and calls NCCL.
#pragma once

#include <nccl.h>

#include <string>

namespace swy::nccl {

// First the entry points of every supported NCCL (2.18 and later), then those of later versions, which are null where
// the loaded library has none.
struct Entries {
    decltype(&::ncclGetVersion) GetVersion = nullptr;
    decltype(&::ncclGetUniqueId) GetUniqueId = nullptr;
    decltype(&::ncclCommInitRankConfig) CommInitRankConfig = nullptr;
    decltype(&::ncclCommFinalize) CommFinalize = nullptr;
    decltype(&::ncclCommDestroy) CommDestroy = nullptr;
    decltype(&::ncclCommAbort) CommAbort = nullptr;
    decltype(&::ncclCommGetAsyncError) CommGetAsyncError = nullptr;
    decltype(&::ncclGetErrorString) GetErrorString = nullptr;
    decltype(&::ncclGetLastError) GetLastError = nullptr;
    decltype(&::ncclGroupStart) GroupStart = nullptr;
    decltype(&::ncclGroupEnd) GroupEnd = nullptr;
    decltype(&::ncclAllReduce) AllReduce = nullptr;
    decltype(&::ncclReduce) Reduce = nullptr;
    decltype(&::ncclBroadcast) Broadcast = nullptr;
    decltype(&::ncclAllGather) AllGather = nullptr;
    decltype(&::ncclReduceScatter) ReduceScatter = nullptr;
    decltype(&::ncclSend) Send = nullptr;
    decltype(&::ncclRecv) Recv = nullptr;

    // 2.23
    ncclResult_t (*CommInitRankScalable)(ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*) = nullptr;

    // 2.28
    ncclResult_t (*AlltoAll)(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) = nullptr;
    ncclResult_t (*Gather)(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = nullptr;
    ncclResult_t (*Scatter)(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = nullptr;
};

// Returns the library, which the first call loads and checks. Returns nullptr when it cannot be loaded; problem() then
// says what was looked for, what was found and what to do.
const Entries* load();
const std::string& problem();
bool too_old();              // found, but older than 2.18
int version();               // NCCL_VERSION_CODE of the loaded library; 0 when there is none
std::string version_text();  // "2.28.9", "" when there is none

// Tells whether this NCCL connects the ranks for collectives when an operation first needs it, and not already when a
// communicator is made. From 2.22 on NCCL does so where its memory allows, unless NCCL_RUNTIME_CONNECT=0 was set before
// its first use (init.cc), as it is here where nobody has loaded the library before.
bool connects_collectives_late();

// For example "ncclSystemError (unhandled system error): ..." with NCCL's last error text.
std::string describe(ncclResult_t result, ncclComm_t comm);

}  // namespace swy::nccl
