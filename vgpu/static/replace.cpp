// libvgpu_static.so, which is preloaded: puts the virtual GPUs' CUDA runtime in the place of NVIDIA's static one,
// nvcc's default, before any code of the executable runs. NVIDIA's needs private tables of its driver, so nothing of
// its interface may run here: a function that the virtual runtime lacks says so and fails.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <string>

#include "vgpu/static/program.hpp"
#include "vgpu/static/redirect.hpp"

using namespace vgpu::static_runtime;

namespace {

void say(const std::string& line) {
    const std::string text = "virtual GPU: " + line + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

struct Missing {
    std::string name;
    std::atomic_flag said;
};

cudaError_t refuse(Missing* function) {
    if (!function->said.test_and_set())
        say(function->name + " is a function that the virtual GPUs do not have: it returns cudaErrorNotSupported");
    return cudaErrorNotSupported;
}

// The one function that returns no error code; it only puts its arguments together.
cudaChannelFormatDesc channel_description(int x, int y, int z, int w, cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}

std::string beside_this(const std::string& file) {
    Dl_info info;
    const std::string self = dladdr(reinterpret_cast<const void*>(&refuse), &info) != 0 ? info.dli_fname : "";
    return self.substr(0, self.rfind('/') + 1) + file;
}

std::string replace(const Runtime& runtime) {
    void* const ours = dlopen(beside_this("libcudart.so." + std::to_string(runtime.major)).c_str(), RTLD_NOW);
    if (ours == nullptr)
        return dlerror();
    static std::deque<Missing>& missing = *new std::deque<Missing>;  // exit handlers may come to them
    std::vector<Jump> jumps;
    for (const Function& function : runtime.functions) {
        if (function.room < kJumpBytes)
            return function.name + " is too short for a jump";
        const void* to = dlsym(ours, function.name.c_str());
        if (to == nullptr && function.name == "cudaCreateChannelDesc")
            to = reinterpret_cast<const void*>(&channel_description);
        if (to != nullptr) {
            jumps.push_back({function.entry, to});
        } else {
            missing.emplace_back().name = function.name;
            jumps.push_back({function.entry, reinterpret_cast<const void*>(&refuse), &missing.back()});
        }
    }
    return redirect(jumps);
}

__attribute__((constructor)) void replace_static_runtime() {
    const Runtime runtime = find_runtime();
    if (runtime.functions.empty())
        return;
    if (const std::string problem = replace(runtime); !problem.empty())
        say("the program's static CUDA runtime cannot be replaced (" + problem +
            "): link the program with `nvcc -cudart shared`");
}

}  // namespace
