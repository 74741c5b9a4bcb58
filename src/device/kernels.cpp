#include "device/kernels.hpp"

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

}  // namespace

// Loads the kernels into the current context. Kernels that cannot be loaded (the image may have nothing for this GPU,
// or be too new for this driver) are done without: everything has another way, and no peer needs to know which one was
// used. Drivers older than cuFuncLoad load a function when it is looked up.
void ContextPool::load_kernels(const Driver& driver) {
    int same_address = 0;
    const BesideCapture beside(driver);
    if (!kernels_built() || driver.module_load_data == nullptr || driver.module_get_function == nullptr ||
        driver.module_unload == nullptr || driver.launch_kernel == nullptr ||
        driver.device_get_attribute(&same_address, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                                    token_.ordinal) != CUDA_SUCCESS ||
        same_address == 0)
        return;
    if (driver.module_load_data(&module_, kernel_image()) != CUDA_SUCCESS) {
        module_ = nullptr;
        return;
    }
    for (std::size_t i = 0; i < kKernels; ++i)
        if (driver.module_get_function(&functions_[i], module_, kNames[i]) != CUDA_SUCCESS ||
            (driver.function_load != nullptr && driver.function_load(functions_[i]) != CUDA_SUCCESS))
            return;
    kernels_loaded_ = true;
}

void ContextPool::unload_kernels(const Driver& driver) noexcept {
    if (module_ == nullptr)
        return;
    const BesideCapture beside(driver);
    const ContextScope scope(context_);
    driver.module_unload(module_);
    module_ = nullptr;
    kernels_loaded_ = false;
}

Result ContextPool::launch(Kernel kernel, std::uint64_t threads, void* parameter, StreamHandle stream) const {
    const Driver* d = driver();
    if (d == nullptr || !kernels_loaded_)
        return CUDA_ERROR_NOT_INITIALIZED;
    const BesideCapture beside(*d);
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
        pool_ != nullptr ? pool_->launch(kernel, threads, parameter, stream_) : CUDA_ERROR_NOT_INITIALIZED;
    if (report::trace::on && result == CUDA_SUCCESS)
        traced_.launched(name_of(kernel), 0, started.time);
    return result;
}

}  // namespace swy::device
