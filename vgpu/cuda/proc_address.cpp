// cuGetProcAddress over the table of entry points.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/api.hpp"
#include "vgpu/cuda/profiler.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

struct Function {
    const char* name;
    int version;  // of CUDA, in which this form appeared
    void* address;
    int per_thread_version;
    void* per_thread_address;  // nullptr: the function knows no default stream
};

#define VGPU_FUNCTION(name, version, symbol) {#name, version, reinterpret_cast<void*>(symbol), 0, nullptr},
#define VGPU_FUNCTION_PER_THREAD(name, version, symbol, per_thread_version, per_thread_symbol) \
    {#name, version, reinterpret_cast<void*>(symbol), per_thread_version, reinterpret_cast<void*>(per_thread_symbol)},
const Function kFunctions[] = {
#include "vgpu/cuda/functions.def"
};
#undef VGPU_FUNCTION
#undef VGPU_FUNCTION_PER_THREAD

using Index = std::multimap<std::string, const Function*, std::less<>>;

const Index& index() {
    static const Index* const kIndex = [] {
        auto* result = new Index;
        for (const Function& function : kFunctions)
            result->emplace(function.name, &function);
        return result;
    }();
    return *kIndex;
}

// The newest form that a program built for `version` expects and the driver (VGPU_DRIVER) has.
CUdriverProcAddressQueryResult look_up(const char* name, int version, bool per_thread, void** address) {
    const auto [begin, end] = index().equal_range(name);
    const int has = settings().driver;
    if (std::none_of(begin, end, [has](const auto& form) { return form.second->version <= has; }))
        return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    int best = 0;
    for (auto form = begin; form != end; ++form) {
        const Function& function = *form->second;
        if (function.version <= std::min(version, has) && function.version > best) {
            const bool own_stream = per_thread && function.per_thread_address != nullptr;
            if (own_stream && function.per_thread_version > std::min(version, has))
                continue;  // a program that asks for the thread's own stream does not get the legacy one
            best = function.version;
            *address = own_stream ? function.per_thread_address : function.address;
        }
    }
    return best == 0 ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SUCCESS;
}

// Says in the log who asked for a function that is not here. Libraries ask for many that they do without, so standard
// error stays empty.
void log_missing(const char* name, const void* caller) {
    if (!calls_wanted())
        return;
    Dl_info info;
    const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
    log("cuGetProcAddress", "missing",
        Fields().add("name", name).add("caller", known ? info.dli_fname : "unknown").text());
}

CUresult get(const char* name, void** address, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status,
             const void* caller) {
    constexpr cuuint64_t kKnown = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (name == nullptr || address == nullptr || flags > kKnown || flags == kKnown)
        return CUDA_ERROR_INVALID_VALUE;
    *address = nullptr;
    const auto result = look_up(name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, address);
    if (status != nullptr)
        *status = result;
    if (result != CU_GET_PROC_ADDRESS_SUCCESS)
        log_missing(name, caller);
    // What is not there is no error where the program asked for the reason (driver 580).
    return result == CU_GET_PROC_ADDRESS_SUCCESS || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

namespace vgpu::cuda {

bool known_function(std::string_view base) {
    return index().find(base) != index().end();
}

}  // namespace vgpu::cuda

CUresult cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
    VGPU_ENTER(cuGetProcAddress, Needs::Nothing);
    return get(name, address, version, flags, status, __builtin_return_address(0));
}

CUresult cuGetProcAddress(const char* name, void** address, int version, cuuint64_t flags) {
    VGPU_ENTER(cuGetProcAddress, Needs::Nothing);
    return get(name, address, version, flags, nullptr, __builtin_return_address(0));
}
