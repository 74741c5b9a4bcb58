// Driver functions by name. Only abi12.cpp, abi13.cpp and entry_point.cpp call these.
#pragma once

#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

// As cudaGetDriverEntryPointByVersion: a symbol that is not there is success with a null function, and `status` (may be
// null) says why.
cudaError_t driver_entry_point(const char* caller, const char* symbol, void** function, int version,
                               unsigned long long flags, cudaDriverEntryPointQueryResult* status);

// Code built for per-thread default streams gets the per-thread functions unless it asks otherwise.
inline unsigned long long per_thread_flags(unsigned long long flags) {
    return flags == cudaEnableDefault ? static_cast<unsigned long long>(cudaEnablePerThreadDefaultStream) : flags;
}

}  // namespace vgpu::cudart
