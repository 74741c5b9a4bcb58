#include "vgpu/cuda/device_code.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/device_heap.hpp"
#include "vgpu/cuda/pool.hpp"
#include "vgpu/cuda/release.hpp"

namespace vgpu::cuda {
namespace {

// The device memory that a launch of this context may touch. Managed and page-locked memory lie at their own addresses.
class Reach : public ptx::Memory {
  public:
    explicit Reach(const Context& context) : context_(context) {}

    bool find(std::uint64_t address, ptx::Range& range) override {
        const auto found = allocations().find_at_work(address, 1);
        if (!found || !found->accessible || !reaches(context_, *found))
            return false;
        range = {found->address, found->end(), reinterpret_cast<std::byte*>(found->alias), true};
        return true;
    }

  private:
    const Context& context_;
};

CUresult allocate(const ptx::Variable& variable, Context& context, Allocation& allocation) {
    const std::size_t bytes = std::max<std::size_t>(1, variable.bytes);
    if (variable.managed) {
        allocation.alias = allocate_host_pages(bytes);
        if (allocation.alias == nullptr)
            return CUDA_ERROR_OUT_OF_MEMORY;
        allocation.address = at(allocation.alias);
        allocation.flags = CU_MEM_ATTACH_GLOBAL;
        allocation.kind = MemoryKind::Managed;
    } else {
        if (context.device().memory->allocate(bytes, allocation.block) != DeviceMemory::Result::Ok)
            return CUDA_ERROR_OUT_OF_MEMORY;
        allocation.address = allocation.block.address;
        allocation.alias = allocation.block.alias;
    }
    allocation.bytes = bytes;
    allocation.device = context.device().ordinal;
    allocation.context = &context;
    std::memset(allocation.alias, 0, bytes);
    std::memcpy(allocation.alias, variable.initial.data(), variable.initial.size());
    return CUDA_SUCCESS;
}

void free_variable(std::uint64_t address) {
    if (const auto removed = allocations().remove(address))
        release_allocation(*removed);
}

// With the image's lock held.
CUresult place_locked(Image& image, const ptx::Module& module, Context& context,
                      std::shared_ptr<const ptx::Addresses>& addresses) {
    auto& placed = image.placed[&context];
    addresses = placed;
    if (placed != nullptr)
        return CUDA_SUCCESS;
    auto made = std::make_shared<ptx::Addresses>();
    std::vector<std::pair<const ptx::Variable*, char*>> fresh;
    for (const ptx::Variable& variable : module.variables()) {
        // A library's managed variables are the same in all contexts: the host has one pointer to each.
        if (const auto managed = image.managed.find(variable.name);
            variable.managed && managed != image.managed.end()) {
            (*made)[variable.name] = managed->second;
            continue;
        }
        Allocation allocation;
        if (const CUresult result = allocate(variable, context, allocation); result != CUDA_SUCCESS) {
            for (const auto& [earlier, alias] : fresh)
                free_variable((*made)[earlier->name]);
            image.placed.erase(&context);
            return result;
        }
        allocations().add(allocation);
        (*made)[variable.name] = allocation.address;
        fresh.emplace_back(&variable, allocation.alias);
    }
    for (const auto& [variable, alias] : fresh) {
        if (variable->managed)
            image.managed[variable->name] = (*made)[variable->name];
        for (const auto& reference : variable->references) {
            const std::uint64_t value =
                ptx::address_of(module, *made, reference.symbol) + static_cast<std::uint64_t>(reference.addend);
            std::memcpy(alias + reference.offset, &value, sizeof value);
        }
    }
    placed = addresses = std::move(made);
    return CUDA_SUCCESS;
}

// An instruction may be written over several lines.
std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

CUresult error_of(ptx::Outcome::Kind kind) {
    switch (kind) {
        case ptx::Outcome::Kind::Done:
        case ptx::Outcome::Kind::Stopped:
            return CUDA_SUCCESS;
        case ptx::Outcome::Kind::IllegalAddress:
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        case ptx::Outcome::Kind::MisalignedAddress:
            return CUDA_ERROR_MISALIGNED_ADDRESS;
        case ptx::Outcome::Kind::IllegalInstruction:
            return CUDA_ERROR_ILLEGAL_INSTRUCTION;
        case ptx::Outcome::Kind::InvalidPc:
            return CUDA_ERROR_INVALID_PC;
        case ptx::Outcome::Kind::Assert:
            return CUDA_ERROR_ASSERT;
        case ptx::Outcome::Kind::Trap:
            break;
    }
    return CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace

const ptx::Module* linked(Image& image) {
    const std::lock_guard guard(image.lock);
    if (!image.linked) {
        image.linked = true;
        if (!image.ptx.empty()) {
            const std::vector<std::string_view> texts(image.ptx.begin(), image.ptx.end());
            ptx::Refusal refusal;
            image.module = ptx::link(texts, refusal);
            if (image.module == nullptr)
                image.refusal = refusal.text;
        }
    }
    return image.module.get();
}

CUresult place(Image& image, Context& context, std::shared_ptr<const ptx::Addresses>& addresses) {
    const ptx::Module* const module = linked(image);
    if (module == nullptr)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const std::lock_guard guard(image.lock);
    return place_locked(image, *module, context, addresses);
}

CUresult variable(Image& image, Context& context, std::string_view name, CUdeviceptr* address, std::size_t* bytes) {
    const ptx::Module* const module = linked(image);
    if (module == nullptr)
        return CUDA_ERROR_NOT_FOUND;
    const auto all = module->variables();
    const auto found = std::find_if(all.begin(), all.end(), [&](const ptx::Variable& v) { return v.name == name; });
    if (found == all.end())
        return CUDA_ERROR_NOT_FOUND;
    std::shared_ptr<const ptx::Addresses> addresses;
    if (const CUresult result = place(image, context, addresses); result != CUDA_SUCCESS)
        return result;
    if (address != nullptr)
        *address = addresses->find(name)->second;
    if (bytes != nullptr)
        *bytes = found->bytes;
    return CUDA_SUCCESS;
}

void release_variables(Image& image) {
    std::map<Context*, std::shared_ptr<const ptx::Addresses>> placed;
    {
        const std::lock_guard guard(image.lock);
        placed.swap(image.placed);
        image.managed.clear();
    }
    for (const auto& [context, addresses] : placed) {
        if (context->active())
            context->synchronize();
        for (const auto& [name, address] : *addresses)
            free_variable(address);
    }
}

bool pack(const ptx::Kernel& kernel, void** parameters, void** extra, std::vector<std::byte>& packed) {
    packed.assign(kernel.parameter_bytes, std::byte{0});
    if (parameters != nullptr) {
        for (std::size_t i = 0; i < kernel.parameters.size(); ++i)
            std::memcpy(packed.data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].bytes);
        return true;
    }
    const void* buffer = nullptr;
    std::size_t size = 0;
    for (void** item = extra; item != nullptr && *item != CU_LAUNCH_PARAM_END; item += 2) {
        if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = item[1];
        else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *static_cast<const std::size_t*>(item[1]);
        else
            return false;
    }
    if (kernel.parameters.empty())
        return true;
    // A structure that comes last may be cut short: NCCL passes as much of its kernels' 4 KiB as they read
    // (enqueue.cc).
    if (buffer == nullptr || size <= kernel.parameters.back().offset)
        return false;
    std::memcpy(packed.data(), buffer, std::min(size, packed.size()));
    return true;
}

void run_kernel(const Function& function, const ptx::Shape& shape, const std::vector<std::byte>& packed,
                const ptx::Addresses& addresses, Context& context) {
    if (context.error() != 0)
        return;  // as the hardware drops what is queued behind the failure
    Reach reach(context);
    ptx::Surroundings surroundings;
    surroundings.memory = &reach;
    surroundings.addresses = &addresses;
    surroundings.capability = 10 * settings().major + settings().minor;
    surroundings.multiprocessors = static_cast<unsigned>(settings().multiprocessors);
    surroundings.stack_bytes = limit_of(context, CU_LIMIT_STACK_SIZE);
    if (function.module->uses_heap())
        surroundings.heap = &device_heap(context);
    surroundings.print = [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
    };
    const ptx::Outcome outcome = ptx::run(*function.module, *function.kernel, shape, packed.data(), surroundings);
    if (const CUresult error = error_of(outcome.kind); error != CUDA_SUCCESS && context.fail(error))
        say(one_line(outcome.text));
}

void explain_no_code(const Function& function) {
    if (function.image->explained.test_and_set())
        return;
    if (!function.image->refusal.empty())
        say("kernel " + function.name + " cannot run: its PTX is refused: " + one_line(function.image->refusal) +
            "; a twin in a library of VGPU_KERNELS would do");
    else
        say("kernel " + function.name + " has no twin and no PTX that the virtual GPUs can run: build it with `nvcc " +
            "-gencode arch=compute_90,code=compute_90`, or write a twin and name its library in VGPU_KERNELS");
}

}  // namespace vgpu::cuda
