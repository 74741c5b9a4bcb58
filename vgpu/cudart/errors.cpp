// Error codes: names and texts as programs print them, the driver's codes as the runtime's, and each thread's last
// error.
#include <algorithm>
#include <cstring>
#include <iterator>

#include <unistd.h>

#include "vgpu/cudart/runtime.hpp"
#include "vgpu/private.h"

namespace vgpu::cudart {

namespace {

struct ErrorRow {
    cudaError_t code;
    const char* name;
    const char* text;
};

// The errors in the order of their numbers.
constexpr ErrorRow kErrors[] = {
#define VGPU_CUDART_ERROR(code, text) {code, #code, text},
#include "vgpu/cudart/errors.def"
#undef VGPU_CUDART_ERROR
};

constexpr const char* kUnrecognized = "unrecognized error code";

thread_local cudaError_t last_error = cudaSuccess;

const ErrorRow* find_error(cudaError_t code) {
    const auto* row = std::lower_bound(std::begin(kErrors), std::end(kErrors), code,
                                       [](const ErrorRow& each, cudaError_t wanted) { return each.code < wanted; });
    return row != std::end(kErrors) && row->code == code ? row : nullptr;
}

cudaError_t error_named(const char* name) {
    for (const ErrorRow& row : kErrors)
        if (std::strcmp(row.name, name) == 0)
            return row.code;
    return cudaErrorUnknown;
}

}  // namespace

// The two sets of numbers are one from CUDA 10.1 on; some driver codes have no counterpart.
cudaError_t runtime_error(CUresult result) {
    const auto code = static_cast<cudaError_t>(result);
    return find_error(code) != nullptr ? code : cudaErrorUnknown;
}

cudaError_t remember(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

cudaError_t injected_fault(const char* function, bool& hang) {
    const char* name = nullptr;
    switch (vgpu_fault(function, &name)) {
        case kVgpuFaultError:
            return error_named(name);
        case kVgpuFaultHang:
            hang = true;
            break;
        case kVgpuFaultNone:
            break;
    }
    return cudaSuccess;
}

void hang_forever(void*) {
    for (;;)
        pause();
}

}  // namespace vgpu::cudart

using namespace vgpu::cudart;

VGPU_CUDART_API const char* cudaGetErrorName(cudaError_t error) {
    const ErrorRow* row = find_error(error);
    return row != nullptr ? row->name : kUnrecognized;
}

VGPU_CUDART_API const char* cudaGetErrorString(cudaError_t error) {
    const ErrorRow* row = find_error(error);
    return row != nullptr ? row->text : kUnrecognized;
}

VGPU_CUDART_API cudaError_t cudaPeekAtLastError() {
    return last_error;
}

VGPU_CUDART_API cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
