#include "device/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/context_pool.hpp"

namespace swy::device {
namespace {

constexpr std::array<const char*, kKernels> kNames{
    "switchyard_pack_1",   "switchyard_pack_2",   "switchyard_pack_4",   "switchyard_pack_8",   "switchyard_pack_16",
    "switchyard_unpack_1", "switchyard_unpack_2", "switchyard_unpack_4", "switchyard_unpack_8", "switchyard_unpack_16",
#define SWY_REDUCE_TYPE(Name, name, Type) "switchyard_reduce_" #name,
#include "datatype/reduce_types.def"
#undef SWY_REDUCE_TYPE
};

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kMostBlocks = 4096;  // beyond, each thread takes several words

// The driver's answers where kernels cannot be loaded. Not destroyed at exit: other threads may still communicate.
struct Refusal {
    std::mutex mutex;
    std::string text;
};
Refusal& refusal() {
    static auto* the_refusal = new Refusal;
    return *the_refusal;
}

void set_refusal(std::string text) {
    const std::scoped_lock lock(refusal().mutex);
    refusal().text = std::move(text);
}

// Loads an image with all its functions into the current context; what the driver says against it, or "".
std::string load(const Driver& driver, const KernelImage& image, CUmodule& module,
                 std::array<CUfunction, kKernels>& functions) {
    std::array<char, 2048> log{};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
    if (const CUresult result = driver.module_load_data(&module, image.data, 2, options, values);
        result != CUDA_SUCCESS) {
        module = nullptr;
        std::string said(log.data());
        said.erase(said.find_last_not_of(" \n") + 1);
        return fmt::format("{} ({}{}{})", image.what, describe(result), said.empty() ? "" : "; ", said);
    }
    for (std::size_t i = 0; i < kKernels; ++i) {
        CUresult result = driver.module_get_function(&functions[i], module, kNames[i]);
        if (result == CUDA_SUCCESS && driver.function_load != nullptr)
            result = driver.function_load(functions[i]);
        if (result == CUDA_SUCCESS)
            continue;
        driver.module_unload(module);
        module = nullptr;
        return fmt::format("{} ({} of {})", image.what, describe(result), kNames[i]);
    }
    return "";
}

}  // namespace

std::string kernels_problem() {
    const std::scoped_lock lock(refusal().mutex);
    return refusal().text;
}

// Loads the kernels into the current context. Kernels that cannot be loaded (the images may have nothing for this GPU,
// or be too new for this driver) are done without: everything has another way, and no peer needs to know which one was
// used. Drivers older than cuFuncLoad load a function when it is looked up.
void ContextPool::load_kernels(const Driver& driver) {
    int same_address = 0;
    const BesideCapture beside(driver);
    if (!kernels_built() || driver.module_load_data == nullptr || driver.module_get_function == nullptr ||
        driver.module_unload == nullptr || driver.launch_kernel == nullptr)
        return;
    if (driver.device_get_attribute(&same_address, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                                    token_.ordinal) != CUDA_SUCCESS ||
        same_address == 0) {
        set_refusal(fmt::format("GPU {} cannot use host memory by the host's addresses", token_.ordinal));
        return;
    }
    std::string refused;
    for (const KernelImage& image : kernel_images()) {
        const std::string answer = load(driver, image, module_, functions_);
        kernels_loaded_ = answer.empty();
        if (kernels_loaded_)
            return;
        refused += (refused.empty() ? "" : ", ") + answer;
    }
    set_refusal(fmt::format("the driver ({}) refuses them on GPU {}: {}", driver_text(), token_.ordinal, refused));
}

std::string try_kernels(int ordinal) {
    const Driver* d = driver();
    CUdevice device = 0;
    CUcontext context = nullptr;
    if (d == nullptr || d->device_get(&device, ordinal) != CUDA_SUCCESS)
        return "";
    if (const CUresult result = d->primary_retain(&context, device); result != CUDA_SUCCESS)
        return fmt::format("GPU {} gives no context to load them into: {}", ordinal, describe(result));
    set_refusal("");
    {
        std::shared_ptr<ContextPool> pool;
        const Result result = ContextPool::of(context, pool);
        if (result != CUDA_SUCCESS)
            set_refusal(fmt::format("GPU {} gives no context to load them into: {}", ordinal, describe(result)));
    }
    release_pools();
    d->primary_release(device);
    return kernels_problem();
}

void ContextPool::unload_kernels(const Driver& driver) noexcept {
    if (module_ == nullptr)
        return;
    const ContextScope scope(context_);
    driver.module_unload(module_);
    module_ = nullptr;
    kernels_loaded_ = false;
}

Result ContextPool::launch(Kernel kernel, std::uint64_t threads, void* parameter, StreamHandle stream) const {
    const Driver* d = driver();
    if (d == nullptr || !kernels_loaded_)
        return CUDA_ERROR_NOT_INITIALIZED;
    const ContextScope scope(context_);
    if (scope.result() != CUDA_SUCCESS)
        return scope.result();
    const std::uint64_t blocks = std::clamp<std::uint64_t>((threads + kThreads - 1) / kThreads, 1, kMostBlocks);
    return d->launch_kernel(functions_[static_cast<std::size_t>(kernel)], static_cast<unsigned>(blocks), 1, 1, kThreads,
                            1, 1, 0, stream, &parameter, nullptr);
}

namespace {

std::string_view name_of(Kernel kernel) {
    return kernel < Kernel::kUnpack1 ? "pack" : kernel <= Kernel::kUnpack16 ? "unpack" : "reduce";
}

}  // namespace

bool Stream::has_kernels() const {
    return pool_ != nullptr && pool_->has_kernels();
}

Result Stream::launch(Kernel kernel, std::uint64_t threads, void* parameter) {
    const report::trace::Started started;
    const Result result =
        pool_ != nullptr ? pool_->launch(kernel, threads, parameter, queue()) : CUDA_ERROR_NOT_INITIALIZED;
    if (report::trace::on && result == CUDA_SUCCESS)
        traced_.launched(name_of(kernel), 0, started.time);
    return result;
}

}  // namespace swy::device
