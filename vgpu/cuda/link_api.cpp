// The driver's linker of device code, cuLink*, and the functions of vgpu/private.h by which nvJitLink uses it.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/api.hpp"
#include "vgpu/cuda/image.hpp"
#include "vgpu/cuda/jit_log.hpp"
#include "vgpu/cuda/linker.hpp"
#include "vgpu/cuda/module.hpp"
#include "vgpu/private.h"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

struct LinkState {
    explicit LinkState(int capability) : linker(settings().driver, capability, newest_interface(settings().driver)) {}

    CUresult done(CUresult result) const {
        errors.write(linker.log());
        information.write("");
        return result;
    }

    Linker linker;
    JitLog errors;
    JitLog information;
};

Registry<LinkState>& link_states() {
    static auto& all = *new Registry<LinkState>;
    return all;
}

CUresult create(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
    if (out == nullptr || (count != 0 && (options == nullptr || values == nullptr)))
        return CUDA_ERROR_INVALID_VALUE;
    int target = capability();
    if (void** const wanted = jit_value(count, options, values, CU_JIT_TARGET))
        target = static_cast<int>(reinterpret_cast<std::uintptr_t>(*wanted) & 0xffff);  // 90a is 90 and a higher bit
    auto state = std::make_shared<LinkState>(target);
    state->errors = JitLog(count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    state->information = JitLog(count, options, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    *out = reinterpret_cast<CUlinkState>(link_states().add(std::move(state)));
    return CUDA_SUCCESS;
}

bool kind_of(CUjitInputType type, Linker::Kind& kind) {
    switch (type) {
        case CU_JIT_INPUT_CUBIN:
            kind = Linker::Kind::Cubin;
            return true;
        case CU_JIT_INPUT_PTX:
            kind = Linker::Kind::Ptx;
            return true;
        case CU_JIT_INPUT_FATBINARY:
            kind = Linker::Kind::Fatbin;
            return true;
        case CU_JIT_INPUT_OBJECT:
            kind = Linker::Kind::Object;
            return true;
        case CU_JIT_INPUT_LIBRARY:
            kind = Linker::Kind::Library;
            return true;
        default:
            return false;  // CU_JIT_INPUT_NVVM: a form of LLVM's that virtual GPUs have no compiler for
    }
}

CUresult add(CUlinkState handle, CUjitInputType type, std::string_view bytes, const char* name) {
    const auto state = link_states().find(handle);
    if (state == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    Linker::Kind kind{};
    if (!kind_of(type, kind))
        return CUDA_ERROR_NOT_SUPPORTED;
    return state->done(state->linker.add(kind, bytes, name == nullptr ? "" : name));
}

bool read_file(const char* path, std::string& bytes) {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    return file.is_open();
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values, CUlinkState* state) {
    VGPU_ENTER(cuLinkCreate, Needs::Context);
    return create(count, options, values, state);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int, CUjit_option*, void**) {
    VGPU_ENTER(cuLinkAddData, Needs::Context);
    if (data == nullptr || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return add(state, type, {static_cast<const char*>(data), size}, name);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int, CUjit_option*,
                          void**) {
    VGPU_ENTER(cuLinkAddFile, Needs::Context);
    if (path == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    std::string bytes;
    return read_file(path, bytes) ? add(state, type, bytes, path) : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult cuLinkComplete(CUlinkState handle, void** cubin, size_t* size) {
    VGPU_ENTER(cuLinkComplete, Needs::Context);
    if (cubin == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const auto state = link_states().find(handle);
    if (state == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = state->done(state->linker.complete()); result != CUDA_SUCCESS)
        return result;
    *cubin = const_cast<char*>(state->linker.cubin().data());  // lives as long as the state
    if (size != nullptr)
        *size = state->linker.cubin().size();
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
    VGPU_ENTER(cuLinkDestroy, Needs::Context);
    return link_states().remove(state) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// The forms of CUDA 5.5, of the same arguments.
CUresult cuLinkCreate(unsigned int count, CUjit_option* options, void** values, CUlinkState* state) {
    return cuLinkCreate_v2(count, options, values, state);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                       unsigned int count, CUjit_option* options, void** values) {
    return cuLinkAddData_v2(state, type, data, size, name, count, options, values);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned int count,
                       CUjit_option* options, void** values) {
    return cuLinkAddFile_v2(state, type, path, count, options, values);
}

struct vgpu_linker {
    Linker linker;
};

// nvJitLink is no part of the driver: one of a newer toolkit takes that toolkit's PTX, and the driver its cubin.
vgpu_linker* vgpu_linker_new(int capability) {
    constexpr int kAllReleases = 99000;
    return new vgpu_linker{Linker(kAllReleases, capability, newest_interface(settings().driver))};
}

void vgpu_linker_delete(vgpu_linker* linker) {
    delete linker;
}

int vgpu_linker_add(vgpu_linker* linker, int type, const void* data, size_t bytes, const char* name) {
    Linker::Kind kind = Linker::Kind::Any;
    if (type >= 0 && !kind_of(static_cast<CUjitInputType>(type), kind))
        return CUDA_ERROR_NOT_SUPPORTED;
    return linker->linker.add(kind, {static_cast<const char*>(data), bytes}, name);
}

int vgpu_linker_complete(vgpu_linker* linker) {
    return linker->linker.complete();
}

const char* vgpu_linker_log(const vgpu_linker* linker) {
    return linker->linker.log().c_str();
}

const void* vgpu_linker_cubin(const vgpu_linker* linker, size_t* bytes) {
    *bytes = linker->linker.cubin().size();
    return linker->linker.cubin().data();
}
