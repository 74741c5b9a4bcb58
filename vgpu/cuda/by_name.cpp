// What libcudart and libnccl ask beyond the driver API. Finds kernels and other symbols of twin libraries by name
// alone, for libcudart: nvcc's host stubs pass a kernel's name and no module.
#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/module.hpp"
#include "vgpu/private.h"

using namespace vgpu;
using namespace vgpu::cuda;

void* vgpu_function(const char* name) {
    static auto& programs = *new Image;  // not searchable: any name may be in it
    if (name == nullptr || find_twin(name).run == nullptr)
        return nullptr;
    return function_in(programs, name);
}

const char* vgpu_machines() {
    static const std::string& names = *new std::string(machine_names());
    return names.c_str();
}

int vgpu_machine_nccl() {
    return settings().machine != nullptr ? settings().machine->nccl : 0;
}

void* vgpu_kernel_symbol(const char* symbol) {
    return symbol == nullptr ? nullptr : find_symbol(symbol);
}
