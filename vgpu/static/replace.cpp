// libvgpu_static.so, which is preloaded: puts the virtual GPUs' CUDA runtime in the place of NVIDIA's static one,
// nvcc's default, in the executable and in shared libraries before any of their code runs. NVIDIA's needs private
// tables of its driver, so nothing of its interface may run here: a function that the virtual runtime lacks says so and
// fails.
//
// This library is initialised before all others (-z initfirst), so what the process starts with has not run yet. Of
// what it loads later the dynamic linker tells debuggers once it is mapped and before it is initialised, by a call of
// an empty function (r_debug::r_brk, <link.h>): a jump over that brings it here too.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <set>
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

void replace_in(const link_map& object) {
    const bool executable = object.l_name == nullptr || *object.l_name == '\0';
    const Runtime runtime = find_runtime(executable ? "/proc/self/exe" : object.l_name, object.l_addr);
    if (runtime.functions.empty())
        return;
    if (const std::string problem = replace(runtime); !problem.empty())
        say("the static CUDA runtime in " + std::string(executable ? "the program" : object.l_name) +
            " cannot be replaced (" + problem + "): link it with `nvcc -cudart shared`");
}

// Looks at what has been loaded since the last call. The dynamic linker's lock is held, or there is one thread.
void look_at_new_objects() {
    static std::set<const link_map*>& known = *new std::set<const link_map*>;
    static bool looking = false;  // replace() loads a library itself
    if (looking || _r_debug.r_state != r_debug::RT_CONSISTENT)
        return;
    looking = true;
    std::set<const link_map*> now;
    for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next)
        if (now.insert(object); !known.contains(object))
            replace_in(*object);
    for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next)
        now.insert(object);  // what replace() has loaded, which is the virtual GPUs' own
    known.swap(now);
    looking = false;
}

// The C library has not been initialised either, and takes the environment that it passes on to constructors here from
// the variable.
__attribute__((constructor)) void replace_static_runtimes(int, char**, char** environment) {
    if (environ == nullptr)
        environ = environment;
    look_at_new_objects();
    if (_r_debug.r_brk != 0)
        redirect(
            {{reinterpret_cast<unsigned char*>(_r_debug.r_brk), reinterpret_cast<const void*>(&look_at_new_objects)}});
}

}  // namespace
