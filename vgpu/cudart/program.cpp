#include "vgpu/cudart/program.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "vgpu/private.h"

namespace vgpu::cudart {

namespace {

constexpr int kEveryDevice = -1;  // where a managed variable lives

struct Kernel {
    std::string name;
    CUfunction function = nullptr;  // found on first use: VGPU_KERNELS is not read before the program runs
    Binary* owner = nullptr;
};

}  // namespace

// One fat binary: the device code of one link unit.
struct Binary {
    struct Variable {
        std::string name;
        size_t bytes = 0;
        void** managed = nullptr;  // the host's pointer to a managed variable; null for the other kinds
        std::map<int, CUdeviceptr> where;
    };

    const void* image = nullptr;
    bool opened = false;
    CUlibrary code = nullptr;  // null where there is no image, or the driver refuses it
    CUresult refusal = CUDA_SUCCESS;
    std::vector<const void*> stubs;
    std::map<const void*, Variable> variables;
    std::set<int> loaded;
};

namespace {

struct Programs {
    std::mutex mutex;
    std::vector<std::unique_ptr<Binary>> binaries;
    std::unordered_map<const void*, Kernel> kernels;
    std::set<CUfunction> handles;
};

// Never destroyed: binaries unregister from exit handlers.
Programs& programs() {
    static auto* all = new Programs;
    return *all;
}

Binary* binary_of(void** handle) {
    return reinterpret_cast<Binary*>(handle);
}

// Gives the driver a binary's device code, at its first use.
CUlibrary library_of(Binary& binary) {
    if (!binary.opened && binary.image != nullptr) {
        binary.opened = true;
        binary.refusal = cuLibraryLoadData(&binary.code, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
        if (binary.refusal != CUDA_SUCCESS)
            binary.code = nullptr;
    }
    return binary.code;
}

// A variable's storage in the device code, with its initial value; where there is no code to run, memory of its own.
CUresult storage_of(Binary& binary, const Binary::Variable& variable, CUdeviceptr& address) {
    size_t bytes = 0;
    if (const CUlibrary library = library_of(binary); library != nullptr) {
        const CUresult found = cuLibraryGetGlobal(&address, &bytes, library, variable.name.c_str());
        if (found != CUDA_ERROR_NOT_FOUND)
            return found;
    }
    CUresult result = variable.managed != nullptr ? cuMemAllocManaged(&address, variable.bytes, CU_MEM_ATTACH_GLOBAL)
                                                  : cuMemAlloc(&address, variable.bytes);
    if (result == CUDA_SUCCESS)
        result = cuMemsetD8(address, 0, variable.bytes);
    return result != CUDA_SUCCESS ? result : cuStreamSynchronize(CU_STREAM_LEGACY);
}

// Makes one variable's storage on a device and lets its twin fill it.
cudaError_t place_variable(Binary& binary, Binary::Variable& variable, int device) {
    const int key = variable.managed != nullptr ? kEveryDevice : device;
    if (variable.where.contains(key))
        return cudaSuccess;
    CUdeviceptr address = 0;
    if (const CUresult result = storage_of(binary, variable, address); result != CUDA_SUCCESS)
        return runtime_error(result);
    using Fill = void (*)(int device, void* address, size_t bytes);
    if (auto* fill = reinterpret_cast<Fill>(vgpu_kernel_symbol(("vgpu_variable_" + variable.name).c_str())))
        fill(device, vgpu_alias(address, variable.bytes), variable.bytes);
    variable.where[key] = address;
    if (variable.managed != nullptr)
        *variable.managed = host_view(address);
    return cudaSuccess;
}

cudaError_t load_locked(Binary& binary, int device) {
    if (binary.loaded.contains(device))
        return cudaSuccess;
    for (auto& [host, variable] : binary.variables)
        if (const cudaError_t result = place_variable(binary, variable, device); result != cudaSuccess)
            return result;
    binary.loaded.insert(device);
    return cudaSuccess;
}

// The kernel in its binary's device code, for one without a twin.
cudaError_t find_code(Kernel& kernel) {
    const CUlibrary library = library_of(*kernel.owner);
    CUkernel found = nullptr;
    if (library == nullptr)
        return kernel.owner->refusal == CUDA_SUCCESS ? cudaErrorInvalidDeviceFunction
                                                     : runtime_error(kernel.owner->refusal);
    if (cuLibraryGetKernel(&found, library, kernel.name.c_str()) != CUDA_SUCCESS)
        return cudaErrorInvalidDeviceFunction;
    kernel.function = reinterpret_cast<CUfunction>(found);
    return cudaSuccess;
}

// Keeps the name of the first kernel registered for a stub, as a second registration is the same kernel in another
// form.
void add_kernel(void** handle, const void* stub, const char* name) {
    Programs& all = programs();
    const std::lock_guard lock(all.mutex);
    Binary* owner = binary_of(handle);
    if (all.kernels.emplace(stub, Kernel{name, nullptr, owner}).second)
        owner->stubs.push_back(stub);
}

void add_variable(void** handle, const void* host, const char* name, size_t bytes, void** managed) {
    Programs& all = programs();
    const std::lock_guard lock(all.mutex);
    binary_of(handle)->variables[host] = Binary::Variable{name, bytes, managed, {}};
}

}  // namespace

cudaError_t find_kernel(const void* stub, CUfunction& function, Binary*& owner) {
    Programs& all = programs();
    const std::lock_guard lock(all.mutex);
    owner = nullptr;
    const auto found = all.kernels.find(stub);
    if (found == all.kernels.end()) {
        function = static_cast<CUfunction>(const_cast<void*>(stub));
        return all.handles.contains(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
    }
    Kernel& kernel = found->second;
    if (kernel.function == nullptr) {
        kernel.function = static_cast<CUfunction>(vgpu_function(kernel.name.c_str()));
        if (kernel.function == nullptr)
            if (const cudaError_t result = find_code(kernel); result != cudaSuccess)
                return result;
        all.handles.insert(kernel.function);
    }
    function = kernel.function;
    owner = kernel.owner;
    return cudaSuccess;
}

cudaError_t load_variables(Binary& binary, int device) {
    const std::lock_guard lock(programs().mutex);
    return load_locked(binary, device);
}

cudaError_t find_variable(const void* symbol, VariableLocation& location) {
    int device = 0;
    if (const cudaError_t result = current_device(device); result != cudaSuccess)
        return result;
    Programs& all = programs();
    const std::lock_guard lock(all.mutex);
    for (const auto& binary : all.binaries) {
        const auto found = binary->variables.find(symbol);
        if (found == binary->variables.end())
            continue;
        if (const cudaError_t result = load_locked(*binary, device); result != cudaSuccess)
            return result;
        const Binary::Variable& variable = found->second;
        location = {variable.where.at(variable.managed != nullptr ? kEveryDevice : device), variable.bytes};
        return cudaSuccess;
    }
    return cudaErrorInvalidSymbol;
}

// A managed variable goes with the device that is reset, though another may have made it: the host's pointer would
// dangle there too.
void forget_device(int device) {
    Programs& all = programs();
    const std::lock_guard lock(all.mutex);
    for (const auto& binary : all.binaries) {
        binary->loaded.clear();
        for (auto& [host, variable] : binary->variables) {
            variable.where.erase(device);
            variable.where.erase(kEveryDevice);
        }
    }
}

}  // namespace vgpu::cudart

using namespace vgpu::cudart;

// The driver gets the image at the first use of something in it: it is not there yet when a program is loaded.
VGPU_CUDART_API void** __cudaRegisterFatBinary(void* image) {
    Programs& all = programs();
    const std::lock_guard lock(all.mutex);
    all.binaries.push_back(std::make_unique<Binary>());
    all.binaries.back()->image = image;
    return reinterpret_cast<void**>(all.binaries.back().get());
}

VGPU_CUDART_API void __cudaRegisterFatBinaryEnd(void**) {}

// Runs at exit or in dlclose. Device storage is left to the context: freeing would wait for work that may never end.
VGPU_CUDART_API void __cudaUnregisterFatBinary(void** handle) {
    Programs& all = programs();
    const std::lock_guard lock(all.mutex);
    const auto found = std::find_if(all.binaries.begin(), all.binaries.end(),
                                    [&](const auto& each) { return each.get() == binary_of(handle); });
    if (found == all.binaries.end())
        return;
    for (const void* stub : (*found)->stubs)
        all.kernels.erase(stub);
    all.binaries.erase(found);
}

VGPU_CUDART_API void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*,
                                            uint3*, dim3*, dim3*, int*) {
    add_kernel(handle, stub, name);
}

VGPU_CUDART_API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t bytes, int,
                                       int) {
    add_variable(handle, host, name, bytes, nullptr);
}

VGPU_CUDART_API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t bytes,
                                              int, int) {
    add_variable(handle, host, name, bytes, host);
}

// Host code calls this before it first touches a managed variable of its link unit.
VGPU_CUDART_API char __cudaInitModule(void** handle) {
    const cudaError_t result = api("__cudaInitModule", Needs::kContext, [&] {
        int device = 0;
        const cudaError_t known = current_device(device);
        return known != cudaSuccess ? known : load_variables(*binary_of(handle), device);
    });
    return result == cudaSuccess ? 1 : 0;
}
