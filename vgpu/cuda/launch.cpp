// Kernel launches: the twin runs on the stream's thread, with copies of its arguments.
#include <algorithm>
#include <cstring>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/device_code.hpp"
#include "vgpu/cuda/pool.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

// The arguments as the launch found them: a program's own may be gone when the kernel runs.
class Arguments {
  public:
    explicit Arguments(const Twin& twin) : twin_(twin) {}

    bool take(void** parameters, void** extra) {
        if (parameters != nullptr) {
            for (std::size_t i = 0; i < twin_.sizes.size(); ++i)
                keep(parameters[i], twin_.sizes[i]);
            return true;
        }
        return twin_.sizes.empty() || take_packed(extra);
    }

    std::vector<std::vector<std::uint64_t>> values() && { return std::move(values_); }

  private:
    void keep(const void* value, std::size_t bytes) {
        auto& copy = values_.emplace_back((bytes + 7) / 8);  // 8-byte words: aligned for every type of parameter
        std::memcpy(copy.data(), value, bytes);
    }

    // CU_LAUNCH_PARAM_BUFFER_POINTER: the arguments as they lie in the device's parameter memory.
    bool take_packed(void** extra) {
        const char* buffer = nullptr;
        std::size_t size = 0;
        for (void** item = extra; item != nullptr && *item != CU_LAUNCH_PARAM_END; item += 2) {
            if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = static_cast<const char*>(item[1]);
            else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE)
                size = *static_cast<const std::size_t*>(item[1]);
            else
                return false;
        }
        std::size_t offset = 0;
        for (const std::size_t bytes : twin_.sizes) {
            const std::size_t alignment = std::min<std::size_t>(8, bytes & (~bytes + 1));
            offset = (offset + alignment - 1) / alignment * alignment;
            if (buffer == nullptr || offset + bytes > size)
                return false;
            keep(buffer + offset, bytes);
            offset += bytes;
        }
        return true;
    }

    const Twin& twin_;
    std::vector<std::vector<std::uint64_t>> values_;
};

void* resolve(const vgpu_launch* launch, const void* pointer, std::size_t bytes) {
    const auto found = allocations().find_at_work(at(pointer), bytes);
    if (!found || !found->accessible)
        return nullptr;
    const auto* context = static_cast<const Context*>(launch->context);
    if (!reaches(*context, *found))
        return nullptr;
    return found->alias_of(at(pointer));
}

bool valid(const vgpu_launch& launch) {
    const unsigned long long threads = 1ull * launch.block[0] * launch.block[1] * launch.block[2];
    return launch.grid[0] > 0 && launch.grid[1] > 0 && launch.grid[2] > 0 && threads > 0 && threads <= 1024 &&
           launch.block[0] <= 1024 && launch.block[1] <= 1024 && launch.block[2] <= 64 &&
           launch.grid[0] <= 2147483647u && launch.grid[1] <= 65535 && launch.grid[2] <= 65535;
}

// What a launch's attributes ask for beyond its shape.
struct How {
    bool cooperative = false;
    bool clustered = false;
    unsigned cluster[3] = {1, 1, 1};
};

// A kernel without a twin: the engine runs its PTX.
CUresult launch_code(const Entry& entry, const std::shared_ptr<Function>& function, const vgpu_launch& launch,
                     const How& how, const std::shared_ptr<Stream>& stream, void** parameters, void** extra) {
    const ptx::Kernel* const kernel = function->kernel;
    if (kernel == nullptr) {
        explain_no_code(*function);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const unsigned threads = launch.block[0] * launch.block[1] * launch.block[2];
    if (!valid(launch) || (parameters != nullptr && extra != nullptr) ||
        launch.shared_bytes > static_cast<unsigned>(function->max_dynamic_shared))
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > kernel->max_threads)
        return CUDA_ERROR_INVALID_VALUE;
    ptx::Shape shape;
    for (int i = 0; i < 3; ++i) {
        shape.grid[i] = launch.grid[i];
        shape.block[i] = launch.block[i];
        shape.cluster[i] = how.clustered ? how.cluster[i] : std::max(1u, kernel->required_cluster[i]);
        if (shape.cluster[i] == 0 || shape.grid[i] % shape.cluster[i] != 0)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    // CUDA programming guide, "Thread Block Clusters". What blocks of a cluster do with each other's shared memory is
    // an instruction that the engine does not know.
    const unsigned long long cluster = 1ull * shape.cluster[0] * shape.cluster[1] * shape.cluster[2];
    if (cluster > 1 && settings().major < 9)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (cluster > 8)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    shape.dynamic_shared_bytes = launch.shared_bytes;
    shape.cooperative = how.cooperative;
    // Blocks that wait for each other have to be resident together.
    const auto room = static_cast<unsigned long long>(settings().multiprocessors) *
                      static_cast<unsigned>(resident_blocks(*function, static_cast<int>(threads), launch.shared_bytes));
    if (how.cooperative && 1ull * shape.grid[0] * shape.grid[1] * shape.grid[2] > room)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    std::vector<std::byte> packed;
    if ((parameters == nullptr && extra == nullptr && !kernel->parameters.empty()) ||
        !pack(*kernel, parameters, extra, packed))
        return CUDA_ERROR_INVALID_VALUE;
    Context& context = stream->context();
    std::shared_ptr<const ptx::Addresses> addresses;
    if (const CUresult result = place(*function->image, context, addresses); result != CUDA_SUCCESS)
        return result;
    load_function(*function, context);
    const Logged logged(entry.name(), stream.get(), Fields().add("kernel", function->name.c_str()));
    logged.launch();
    context.submit(stream, Work::Kernel,
                   logged.wrap([function, shape, packed = std::move(packed), addresses, &context] {
                       run_kernel(*function, shape, packed, *addresses, context);
                   }),
                   {}, entry.hang());
    return CUDA_SUCCESS;
}

CUresult launch_kernel(const Entry& entry, CUfunction given, vgpu_launch launch, CUstream given_stream,
                       void** parameters, void** extra, const How& how = {}) {
    const auto function = function_of(given);
    const auto stream = stream_of(entry, given_stream);
    if (function == nullptr || stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::Node); result != CUDA_SUCCESS)
        return result;
    if (function->twin.run == nullptr)
        return launch_code(entry, function, launch, how, stream, parameters, extra);
    if (how.cooperative || how.clustered)
        return CUDA_ERROR_NOT_SUPPORTED;  // twins run a grid as one call
    if (!valid(launch) || (parameters != nullptr && extra != nullptr) ||
        launch.shared_bytes > static_cast<unsigned>(function->max_dynamic_shared))
        return CUDA_ERROR_INVALID_VALUE;
    const Twin& twin = function->twin;
    launch.device = stream->context().device().ordinal;
    launch.resolve = resolve;
    launch.context = &stream->context();
    load_function(*function, stream->context());
    const Logged logged(entry.name(), stream.get(), Fields().add("kernel", function->name.c_str()));
    logged.launch();
    if (!twin.sizes_known) {
        if ((parameters == nullptr && extra != nullptr) || capturing(stream))
            return CUDA_ERROR_NOT_SUPPORTED;
        stream->context().run(stream, logged.wrap([&] { twin.run(&launch, parameters); }), entry.hang());
        return CUDA_SUCCESS;
    }
    Arguments arguments(twin);
    if (!arguments.take(parameters, extra))
        return CUDA_ERROR_INVALID_VALUE;
    stream->context().submit(stream, Work::Kernel,
                             logged.wrap([function, launch, values = std::move(arguments).values()]() mutable {
                                 std::vector<void*> pointers;
                                 for (auto& value : values)
                                     pointers.push_back(value.data());
                                 function->twin.run(&launch, pointers.data());
                             }),
                             {}, entry.hang());
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void** parameters, void** extra) {
    VGPU_ENTER(cuLaunchKernel, Needs::Context, Hang::Enqueues);
    vgpu_launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, 0, nullptr, nullptr};
    return launch_kernel(entry, function, launch, stream, parameters, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                             CUstream stream, void** parameters, void** extra) {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, per_thread(stream),
                          parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                   unsigned int shared, CUstream stream, void** parameters) {
    VGPU_ENTER(cuLaunchCooperativeKernel, Needs::Context, Hang::Enqueues);
    vgpu_launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, 0, nullptr, nullptr};
    How how;
    how.cooperative = true;
    return launch_kernel(entry, function, launch, stream, parameters, nullptr, how);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared, CUstream stream, void** parameters) {
    return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                                     per_thread(stream), parameters);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
    VGPU_ENTER(cuLaunchKernelEx, Needs::Context, Hang::Enqueues);
    if (config == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    How how;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config->attrs[i];
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            how.cooperative = attribute.value.cooperative != 0;
        } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const auto& asked = attribute.value.clusterDim;
            how.clustered = true;
            how.cluster[0] = asked.x;
            how.cluster[1] = asked.y;
            how.cluster[2] = asked.z;
        }
    }
    vgpu_launch launch{{config->gridDimX, config->gridDimY, config->gridDimZ},
                       {config->blockDimX, config->blockDimY, config->blockDimZ},
                       config->sharedMemBytes,
                       0,
                       nullptr,
                       nullptr};
    return launch_kernel(entry, function, launch, config->hStream, parameters, extra, how);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
    if (config == nullptr)
        return cuLaunchKernelEx(config, function, parameters, extra);
    CUlaunchConfig own = *config;
    own.hStream = per_thread(config->hStream);
    return cuLaunchKernelEx(&own, function, parameters, extra);
}
