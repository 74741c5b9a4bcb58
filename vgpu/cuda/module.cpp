// Loading of device code and look-up of kernels.
#include "vgpu/cuda/module.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <elf.h>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/device_code.hpp"
#include "vgpu/cuda/image.hpp"
#include "vgpu/cuda/jit_log.hpp"
#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

Registry<Function>& function_handles() {
    static auto& all = *new Registry<Function>;
    return all;
}

CUresult load(const void* data, Context* context, void** out, unsigned options = 0, const CUjit_option* names = nullptr,
              void** values = nullptr) {
    if (data == nullptr || out == nullptr || (options != 0 && (names == nullptr || values == nullptr)))
        return CUDA_ERROR_INVALID_VALUE;
    Loaded loaded = load_image(data, settings().driver, capability());
    JitLog(options, names, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES).write(loaded.log);
    if (loaded.result != CUDA_SUCCESS)
        return loaded.result;
    auto image = std::make_shared<Image>();
    image->context = context;
    image->text = std::move(loaded.text);
    image->searchable = loaded.searchable;
    image->ptx = std::move(loaded.ptx);
    image->refusal = std::move(loaded.without);
    // Loading a module waits for all that runs in the context (seen on driver 580); a library is loaded into none yet.
    if (context != nullptr)
        context->synchronize();
    *out = image_handles().add(std::move(image));
    return CUDA_SUCCESS;
}

CUresult load_file(const char* path, Context* context, void** out) {
    if (path == nullptr || out == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    std::ostringstream content;
    content << file.rdbuf();
    std::string bytes = content.str();
    bytes.resize(bytes.size() + sizeof(Elf64_Ehdr), '\0');  // headers may be read of the shortest file
    return load(bytes.data(), context, out);
}

CUresult unload(const void* handle) {
    const auto image = image_handles().remove(handle);
    if (image == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    function_handles().remove_if([&](const Function& f) { return f.image == image.get(); });
    if (image->context != nullptr && image->context->active())
        image->context->synchronize();
    release_variables(*image);
    return CUDA_SUCCESS;
}

template <typename Handle>
CUresult look_up(Handle* out, const void* handle, const char* name) {
    if (out == nullptr || name == nullptr || *name == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    const auto image = image_handles().find(handle);
    if (image == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    Function* function = function_in(*image, name);
    *out = reinterpret_cast<Handle>(function);
    return function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult get_variable(const Entry& entry, CUdeviceptr* address, std::size_t* bytes, const void* handle,
                      const char* name) {
    if (name == nullptr || *name == '\0' || (address == nullptr && bytes == nullptr))
        return CUDA_ERROR_INVALID_VALUE;
    const auto image = image_handles().find(handle);
    return image == nullptr ? CUDA_ERROR_INVALID_HANDLE : variable(*image, entry.context(), name, address, bytes);
}

}  // namespace

namespace vgpu::cuda {

int capability() {
    return 10 * settings().major + settings().minor;
}

Registry<Image>& image_handles() {
    static auto& all = *new Registry<Image>;
    return all;
}

std::shared_ptr<Function> function_of(const void* handle) {
    return function_handles().find(handle);
}

void load_function(Function& function, Context& context) {
    if (!settings().lazy_loading)
        return;
    {
        const std::lock_guard guard(function.image->lock);
        if (function.loaded.contains(&context))
            return;
    }
    context.synchronize();
    const std::lock_guard guard(function.image->lock);
    function.loaded.insert(&context);
}

Function* function_in(Image& image, const char* name) {
    const Twin twin = find_twin(name);
    const ptx::Module* const module = twin.run == nullptr ? linked(image) : nullptr;
    const ptx::Kernel* const kernel = module == nullptr ? nullptr : module->kernel(name);
    const std::lock_guard guard(image.lock);
    auto& function = image.functions[name];
    if (function != nullptr)
        return function.get();
    if (kernel == nullptr && image.searchable && image.text.find(name) == std::string::npos) {
        image.functions.erase(name);
        return nullptr;
    }
    function = std::make_shared<Function>();
    function->image = &image;
    function->name = name;
    function->twin = twin;
    function->kernel = kernel;
    if (kernel != nullptr)
        function->module = image.module;
    return function_handles().add(function);
}

void release_modules(Context& context) {
    image_handles().remove_if([&](Image& image) {
        if (image.context != &context) {  // a library: what it had in the context was freed with the context's memory
            const std::lock_guard guard(image.lock);
            if (const auto own = image.placed.find(&context); own != image.placed.end()) {
                std::erase_if(image.managed, [](const auto& each) { return !allocations().find(each.second); });
                image.placed.erase(own);
            }
            for (const auto& [name, function] : image.functions)
                function->loaded.erase(&context);
            return false;
        }
        function_handles().remove_if([&](const Function& f) { return f.image == &image; });
        return true;
    });
}

}  // namespace vgpu::cuda

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    VGPU_ENTER(cuModuleLoadData, Needs::Context);
    return load(image, &entry.context(), reinterpret_cast<void**>(module));
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int options, CUjit_option* names,
                            void** values) {
    VGPU_ENTER(cuModuleLoadDataEx, Needs::Context);
    return load(image, &entry.context(), reinterpret_cast<void**>(module), options, names, values);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
    VGPU_ENTER(cuModuleLoadFatBinary, Needs::Context);
    return load(image, &entry.context(), reinterpret_cast<void**>(module));
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
    VGPU_ENTER(cuModuleLoad, Needs::Context);
    return load_file(path, &entry.context(), reinterpret_cast<void**>(module));
}

CUresult cuModuleUnload(CUmodule module) {
    VGPU_ENTER(cuModuleUnload, Needs::Context);
    return unload(module);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    VGPU_ENTER(cuModuleGetFunction, Needs::Context);
    const CUresult result = look_up(function, module, name);
    // Drivers without cuFuncLoad load a function here.
    if (result == CUDA_SUCCESS && settings().driver < 12040)
        load_function(*function_of(*function), entry.context());
    return result;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
    VGPU_ENTER(cuModuleGetGlobal, Needs::Context);
    return get_variable(entry, address, bytes, module, name);
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    VGPU_ENTER(cuLibraryGetGlobal, Needs::Context);
    return get_variable(entry, address, bytes, library, name);
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    VGPU_ENTER(cuLibraryGetManaged, Needs::Context);
    return get_variable(entry, address, bytes, library, name);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    VGPU_ENTER(cuModuleGetLoadingMode, Needs::Init);
    if (mode == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = settings().lazy_loading ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* names, void** values,
                           unsigned int options, CUlibraryOption*, void**, unsigned int) {
    VGPU_ENTER(cuLibraryLoadData, Needs::Init);
    return load(code, nullptr, reinterpret_cast<void**>(library), options, names, values);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned int,
                               CUlibraryOption*, void**, unsigned int) {
    VGPU_ENTER(cuLibraryLoadFromFile, Needs::Init);
    return load_file(path, nullptr, reinterpret_cast<void**>(library));
}

CUresult cuLibraryUnload(CUlibrary library) {
    VGPU_ENTER(cuLibraryUnload, Needs::Init);
    return unload(library);
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    VGPU_ENTER(cuLibraryGetKernel, Needs::Init);
    return look_up(kernel, library, name);
}

// Module and library are one object here, and so are a kernel and its function in any context.
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
    VGPU_ENTER(cuLibraryGetModule, Needs::Context);
    if (module == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (image_handles().find(library) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *module = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    VGPU_ENTER(cuKernelGetFunction, Needs::Context);
    if (function == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (function_of(kernel) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}
