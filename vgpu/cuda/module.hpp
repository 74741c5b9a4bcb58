// Modules, libraries and functions within libcuda.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "vgpu/core/kernels.hpp"
#include "vgpu/cuda/api.hpp"
#include "vgpu/ptx/ptx.hpp"

namespace vgpu::cuda {

struct Image;

// A kernel: CUfunction and CUkernel are handles of it.
struct Function {
    Image* image = nullptr;
    std::string name;
    Twin twin;
    std::shared_ptr<const ptx::Module> module;  // where there is no twin: what the engine runs
    const ptx::Kernel* kernel = nullptr;        // in `module`
    int max_dynamic_shared = 49152;             // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    std::set<const Context*> loaded;            // where it has been, with lazy loading; under its image's lock
};

// Device code that a program loaded: CUmodule and CUlibrary are handles of it. The engine runs its PTX for the kernels
// that have no twin; cubins are looked at only for the names in them, where they are not compressed.
struct Image {
    Context* context = nullptr;  // nullptr for a library, which all contexts share
    std::string text;            // what can be searched for names; empty when nothing can be known
    bool searchable = false;
    std::vector<std::string> ptx;
    std::string refusal;  // why there is no module for the PTX, or no PTX
    std::atomic_flag explained;
    std::mutex lock;
    bool linked = false;
    std::shared_ptr<const ptx::Module> module;
    std::map<Context*, std::shared_ptr<const ptx::Addresses>> placed;  // the variables, in each context that uses them
    ptx::Addresses managed;
    std::map<std::string, std::shared_ptr<Function>> functions;
};

// That of all virtual GPUs: 90 for compute capability 9.0.
int capability();

Registry<Image>& image_handles();
std::shared_ptr<Function> function_of(const void* handle);

// How many blocks of this many threads and bytes of dynamic shared memory a multiprocessor has room for.
int resident_blocks(const Function& function, int block_size, std::size_t shared);

// Loads the function into the context where that is left to its first launch there: waits for all that runs in the
// context, in streams of every kind and on the host, as driver 580 does.
void load_function(Function& function, Context& context);

// The function of this name, made on first asking; nullptr when the image is known not to have it.
Function* function_in(Image& image, const char* name);

}  // namespace vgpu::cuda
