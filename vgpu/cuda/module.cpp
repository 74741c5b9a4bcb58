// Loading of device code and look-up of kernels.
#include "vgpu/cuda/module.hpp"

#include <cstring>
#include <fstream>
#include <sstream>

#include <elf.h>

#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

Registry<Function>& function_handles() {
    static auto& all = *new Registry<Function>;
    return all;
}

// The formats of device code: a cubin (ELF, whose headers have its size), PTX (text), a fat binary (compressed, so that
// its names cannot be read).
std::shared_ptr<Image> read_image(const void* data, Context* context) {
    constexpr std::uint32_t kFatbin = 0xBA55ED50;
    constexpr std::uint32_t kFatbinWrapper = 0x466243b1;
    auto image = std::make_shared<Image>();
    image->context = context;
    std::uint32_t magic = 0;
    std::memcpy(&magic, data, sizeof magic);
    if (std::memcmp(data, ELFMAG, SELFMAG) == 0) {
        Elf64_Ehdr header;
        std::memcpy(&header, data, sizeof header);
        const std::size_t size =
            std::max<std::size_t>(header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize,
                                  header.e_phoff + std::size_t{header.e_phnum} * header.e_phentsize);
        image->text.assign(static_cast<const char*>(data), size);
        image->searchable = true;
    } else if (magic != kFatbin && magic != kFatbinWrapper) {
        image->text = static_cast<const char*>(data);
        image->searchable = true;
        if (image->text.find(".version") == std::string::npos)
            return nullptr;
    }
    return image;
}

CUresult load(const void* data, Context* context, void** out) {
    if (data == nullptr || out == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    auto image = read_image(data, context);
    if (image == nullptr)
        return CUDA_ERROR_INVALID_IMAGE;
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

}  // namespace

namespace vgpu::cuda {

Registry<Image>& image_handles() {
    static auto& all = *new Registry<Image>;
    return all;
}

std::shared_ptr<Function> function_of(const void* handle) {
    return function_handles().find(handle);
}

Function* function_in(Image& image, const char* name) {
    const std::lock_guard guard(image.lock);
    auto& function = image.functions[name];
    if (function != nullptr)
        return function.get();
    if (image.searchable && image.text.find(name) == std::string::npos) {
        image.functions.erase(name);
        return nullptr;
    }
    function = std::make_shared<Function>();
    function->image = &image;
    function->name = name;
    function->twin = find_twin(name);
    return function_handles().add(function);
}

void release_modules(Context& context) {
    image_handles().remove_if([&](Image& image) {
        if (image.context != &context)
            return false;
        function_handles().remove_if([&](const Function& f) { return f.image == &image; });
        return true;
    });
}

}  // namespace vgpu::cuda

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    VGPU_ENTER(cuModuleLoadData, Needs::Context);
    return load(image, &entry.context(), reinterpret_cast<void**>(module));
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, CUjit_option*, void**) {
    VGPU_ENTER(cuModuleLoadDataEx, Needs::Context);
    return load(image, &entry.context(), reinterpret_cast<void**>(module));
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
    return look_up(function, module, name);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    VGPU_ENTER(cuModuleGetLoadingMode, Needs::Init);
    if (mode == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                           void**, unsigned int) {
    VGPU_ENTER(cuLibraryLoadData, Needs::Init);
    return load(code, nullptr, reinterpret_cast<void**>(library));
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
