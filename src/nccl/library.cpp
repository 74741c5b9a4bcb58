#include "nccl/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "settings/files.hpp"
#include "settings/settings.hpp"
#include "topology/nics.hpp"

namespace swy::nccl {
namespace {

constexpr int kOldestVersion = 21800;
constexpr int kFirstToConnectLate = 22200;
constexpr int kFirstScalable = 22300;
constexpr int kFirstWithExchanges = 22800;

struct Library {
    Entries entries;
    std::string problem;
    int version = 0;
    bool usable = false, old = false, connects_late = false;
};

std::string in_digits(int code) {
    return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

template <typename Function>
bool bind(void* handle, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    return function != nullptr;
}

// Binds all entry points. Returns the name of the first one that every supported NCCL has and this library lacks;
// nullptr when none is missing.
const char* bind_all(void* handle, Entries& e) {
#define SWY_BIND(name)                       \
    if (!bind(handle, "nccl" #name, e.name)) \
        return "nccl" #name;
    SWY_BIND(GetVersion)
    SWY_BIND(GetUniqueId)
    SWY_BIND(CommInitRankConfig)
    SWY_BIND(CommFinalize)
    SWY_BIND(CommDestroy)
    SWY_BIND(CommAbort)
    SWY_BIND(CommGetAsyncError)
    SWY_BIND(GetErrorString)
    SWY_BIND(GetLastError)
    SWY_BIND(GroupStart)
    SWY_BIND(GroupEnd)
    SWY_BIND(AllReduce)
    SWY_BIND(Reduce)
    SWY_BIND(Broadcast)
    SWY_BIND(AllGather)
    SWY_BIND(ReduceScatter)
    SWY_BIND(Send)
    SWY_BIND(Recv)
#undef SWY_BIND
    return nullptr;
}

// NCCL reads its variables when it is first used; where the program has loaded the library before, that may be over.

// Sets NCCL_IB_HCA to the network adapters near the GPU.
void tell_nics(bool loaded_before) {
    if (settings::values().nics != settings::Nics::kNear || loaded_before)
        return;
    if (const std::string devices = topology::rdma_devices_to_tell(); !devices.empty())
        setenv("NCCL_IB_HCA", devices.c_str(), 0);
}

// Has NCCL make all of a communicator's connections for collectives when the communicator is made: later they would
// block whoever launches. Returns whether that is certain.
bool connect_early(bool loaded_before) {
    if (!loaded_before)
        setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    const char* value = std::getenv("NCCL_RUNTIME_CONNECT");
    return value != nullptr && std::string_view(value) == "0";
}

Library open_library() {
    Library library;
    const std::string& wish = settings::values().nccl_library;
    const std::string file = wish.empty() ? "libnccl.so.2" : wish;
    if (const std::string problem = settings::not_regular(file);
        file.find('/') != std::string::npos && !problem.empty()) {
        library.problem = problem + ": name NCCL's library in SWITCHYARD_NCCL_LIBRARY";
        return library;
    }
    const bool loaded_before = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr;
    tell_nics(loaded_before);
    library.connects_late = !connect_early(loaded_before);
    // RTLD_LOCAL: the program may have loaded an NCCL of its own, and neither may see the other's symbols.
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* why = dlerror();
        library.problem = fmt::format(
            "{} cannot be loaded ({}): install NCCL, add its folder to LD_LIBRARY_PATH, or name the file in "
            "SWITCHYARD_NCCL_LIBRARY",
            file, why != nullptr ? why : "no reason given");
        return library;
    }
    const char* missing = bind_all(handle, library.entries);
    if (library.entries.GetVersion != nullptr)
        library.entries.GetVersion(&library.version);
    if (library.version < kOldestVersion) {
        library.old = library.version != 0;
        library.problem =
            fmt::format("{} is NCCL {}; Switchyard needs 2.18 or later: name another in SWITCHYARD_NCCL_LIBRARY", file,
                        in_digits(library.version));
    } else if (missing != nullptr) {
        library.problem =
            fmt::format("{} lacks {}: is it NCCL? Name another library in SWITCHYARD_NCCL_LIBRARY", file, missing);
    } else if (const char* blocking = std::getenv("NCCL_COMM_BLOCKING");
               blocking != nullptr && std::string_view(blocking) == "0") {
        library.problem =
            "NCCL_COMM_BLOCKING=0 makes all of NCCL's communicators non-blocking, and Switchyard needs blocking ones: "
            "unset it";
    } else {
        library.usable = true;
        library.connects_late &= library.version >= kFirstToConnectLate;
        if (library.version >= kFirstScalable)
            bind(handle, "ncclCommInitRankScalable", library.entries.CommInitRankScalable);
        if (library.version >= kFirstWithExchanges) {
            bind(handle, "ncclAlltoAll", library.entries.AlltoAll);
            bind(handle, "ncclGather", library.entries.Gather);
            bind(handle, "ncclScatter", library.entries.Scatter);
        }
    }
    return library;  // stays loaded for the life of the process: NCCL's threads run in it
}

const Library& library() {
    static const auto* opened = new Library(open_library());
    return *opened;
}

const char* symbol_of(ncclResult_t result) {
    switch (result) {
        case ncclSuccess:
            return "ncclSuccess";
        case ncclUnhandledCudaError:
            return "ncclUnhandledCudaError";
        case ncclSystemError:
            return "ncclSystemError";
        case ncclInternalError:
            return "ncclInternalError";
        case ncclInvalidArgument:
            return "ncclInvalidArgument";
        case ncclInvalidUsage:
            return "ncclInvalidUsage";
        case ncclRemoteError:
            return "ncclRemoteError";
        case ncclInProgress:
            return "ncclInProgress";
        default:
            return "an NCCL error unknown to this version of Switchyard";
    }
}

}  // namespace

const Entries* load() {
    return library().usable ? &library().entries : nullptr;
}
const std::string& problem() {
    return library().problem;
}
bool too_old() {
    return library().old;
}
int version() {
    return library().version;
}
bool connects_collectives_late() {
    return library().connects_late;
}
std::string version_text() {
    return library().version == 0 ? "" : in_digits(library().version);
}

std::string describe(ncclResult_t result, ncclComm_t comm) {
    const Entries& e = library().entries;
    std::string text = symbol_of(result);
    if (e.GetErrorString != nullptr)
        text += fmt::format(" ({})", e.GetErrorString(result));
    const char* last = e.GetLastError != nullptr ? e.GetLastError(comm) : nullptr;
    if (last != nullptr && *last != '\0')
        text += fmt::format(": {}", last);
    return text;
}

}  // namespace swy::nccl
