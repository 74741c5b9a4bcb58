#include "vgpu/core/kernels.hpp"

#include <mutex>

#include <dlfcn.h>

#include "vgpu/core/built_in.hpp"
#include "vgpu/core/settings.hpp"

namespace vgpu {
namespace {

struct Libraries {
    std::mutex lock;
    bool loaded = false;
    std::vector<void*> handles;
};

Libraries& libraries() {
    static auto& all = *new Libraries;
    return all;
}

}  // namespace

void load_kernel_libraries(std::vector<std::string>& complaints) {
    const std::lock_guard guard(libraries().lock);
    if (libraries().loaded)
        return;
    for (const std::string& path : settings().kernels) {
        if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
            libraries().handles.push_back(handle);
        else
            complaints.push_back(
                complaint("VGPU_KERNELS", path, dlerror(),
                          "name shared libraries that export vgpu_kernel_* functions, separated by colons"));
    }
    libraries().loaded = complaints.empty();
}

Twin find_twin(const std::string& kernel) {
    Twin twin;
    const std::lock_guard guard(libraries().lock);
    for (void* handle : libraries().handles) {
        twin.run = reinterpret_cast<vgpu_kernel>(dlsym(handle, ("vgpu_kernel_" + kernel).c_str()));
        if (twin.run == nullptr)
            continue;
        const void* sizes = dlsym(handle, ("vgpu_kernel_parameters_" + kernel).c_str());
        twin.sizes_known = sizes != nullptr;
        for (auto size = static_cast<const std::size_t*>(sizes); size != nullptr && *size != 0; ++size)
            twin.sizes.push_back(*size);
        return twin;
    }
    for (const BuiltIn& own : built_in_twins())
        if (kernel == own.name)
            return {own.run, true, {own.parameter}};
    return twin;
}

void* find_symbol(const char* symbol) {
    const std::lock_guard guard(libraries().lock);
    for (void* handle : libraries().handles)
        if (void* found = dlsym(handle, symbol); found != nullptr)
            return found;
    return nullptr;
}

}  // namespace vgpu
