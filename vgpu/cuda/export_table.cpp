// cuGetExportTable: NVIDIA's private interfaces, which its CUDA runtime needs and the virtual GPUs do not have.
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <mutex>
#include <string>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/api.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

// NVIDIA's runtime, linked statically or not, asks for the table of this name before it does anything else; nothing
// else does. The same since CUDA 5.
constexpr std::array<unsigned char, 16> kRuntimeTable = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                                         0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};

// Prints the cause: the runtime itself only returns "named symbol not found" or "initialization error" after this.
void explain(const void* caller) {
    Dl_info info;
    const std::string file = dladdr(caller, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "this program";
    const std::string name = file.substr(file.rfind('/') + 1);
    if (name.starts_with("libcudart.so"))
        say(file +
            " is NVIDIA's own CUDA runtime, which the virtual GPUs cannot serve: put their folder first in "
            "LD_LIBRARY_PATH (switchyard run does), and link the program without an rpath to the other");
    else if (name.starts_with("libnccl.so"))
        say(file +
            " has NVIDIA's static CUDA runtime in it, which the virtual GPUs cannot serve (a real GPU's driver does). "
            "Where it is not stripped it is replaced, by `switchyard run --virtual-gpus 2 --nccl FILE` or "
            "LD_PRELOAD=FOLDER/libvgpu_static.so; else build it from its source with CUDARTLIB=cudart");
    else
        say(file +
            " has NVIDIA's static CUDA runtime in it, nvcc's default, which the virtual GPUs cannot serve "
            "(a real GPU's driver does). In a file that is not stripped it is replaced, by `switchyard run "
            "--virtual-gpus` or LD_PRELOAD=FOLDER/libvgpu_static.so; else link it with `nvcc -cudart shared`, "
            "or with -lcudart in place of -lcudart_static");
}

}  // namespace

CUresult cuGetExportTable(const void** table, const CUuuid* id) {
    VGPU_ENTER(cuGetExportTable, Needs::Nothing);
    if (table == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *table = nullptr;
    static std::once_flag once;
    if (id != nullptr && std::memcmp(id, kRuntimeTable.data(), kRuntimeTable.size()) == 0)
        std::call_once(once, explain, __builtin_return_address(0));
    return CUDA_ERROR_NOT_FOUND;
}
