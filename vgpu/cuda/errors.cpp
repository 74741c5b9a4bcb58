// cuGetErrorName, cuGetErrorString and the error names of VGPU_FAULTS.
#include <string_view>

#include "vgpu/cuda/api.hpp"

namespace vgpu::cuda {
namespace {

struct ErrorRow {
    CUresult code;
    const char* name;
    const char* text;
};

#define VGPU_ERROR(name, text) {name, #name, text},
constexpr ErrorRow kErrors[] = {
#include "vgpu/cuda/errors.def"
};
#undef VGPU_ERROR

const ErrorRow* row_of(CUresult error) {
    for (const ErrorRow& row : kErrors)
        if (row.code == error)
            return &row;
    return nullptr;
}

}  // namespace

const char* error_name(CUresult error) {
    const ErrorRow* row = row_of(error);
    return row == nullptr ? nullptr : row->name;
}

bool error_by_name(std::string_view name, CUresult& error) {
    for (const ErrorRow& row : kErrors)
        if (name == row.name) {
            error = row.code;
            return true;
        }
    return false;
}

}  // namespace vgpu::cuda

using namespace vgpu::cuda;

CUresult cuGetErrorName(CUresult error, const char** name) {
    VGPU_ENTER(cuGetErrorName, Needs::Nothing);
    if (name == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const ErrorRow* row = row_of(error);
    *name = row == nullptr ? nullptr : row->name;
    return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
    VGPU_ENTER(cuGetErrorString, Needs::Nothing);
    if (text == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const ErrorRow* row = row_of(error);
    *text = row == nullptr ? nullptr : row->text;
    return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
