#include "vgpu/cudart/entry_point.hpp"

namespace vgpu::cudart {

cudaError_t driver_entry_point(const char* caller, const char* symbol, void** function, int version,
                               unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
    return api(caller, Needs::kDriver, [&]() -> cudaError_t {
        if (symbol == nullptr || function == nullptr)
            return cudaErrorInvalidValue;
        *function = nullptr;
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        const CUresult result = cuGetProcAddress(symbol, function, version, flags, &found);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND)
            return runtime_error(result);
        if (found != CU_GET_PROC_ADDRESS_SUCCESS)
            *function = nullptr;
        if (status != nullptr)
            *status = static_cast<cudaDriverEntryPointQueryResult>(found);  // the same numbers
        return cudaSuccess;
    });
}

}  // namespace vgpu::cudart

using namespace vgpu::cudart;

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                                             unsigned long long flags,
                                                             cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPointByVersion", symbol, function, static_cast<int>(version), flags,
                              status);
}

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned version,
                                                                  unsigned long long flags,
                                                                  cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPointByVersion", symbol, function, static_cast<int>(version),
                              per_thread_flags(flags), status);
}
