#include "device/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <pthread.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "device/host_ranges.hpp"
#include "device/libraries.hpp"

namespace swy::device {

std::atomic<const Driver*> the_driver{nullptr};
std::atomic<PointerQuery> pointer_query{nullptr};

namespace {

constexpr const char* kLibrary = "libcuda.so.1";

std::atomic<DriverState> state{DriverState::kNotLoaded};
std::atomic<bool> forked{false};

// What is wrong with the driver. Not destroyed at exit: threads may still communicate while static objects are
// destroyed.
struct Problem {
    std::mutex mutex;
    std::string text;
};
Problem& problem() {
    static auto* the_problem = new Problem;
    return *the_problem;
}

void set_problem(std::string text) {
    const std::scoped_lock lock(problem().mutex);
    problem().text = std::move(text);
}

enum class Need : bool { kOptional, kRequired };

struct Entry {
    const char* function;
    int version;
    const char* exported;
    Need need;
    void (*store)(Driver&, void*);
};

constexpr Entry kEntries[] = {
#define SWY_ENTRY(member, function, version, exported, need) \
    {#function, version, exported, Need::need,               \
     [](Driver& driver, void* address) { driver.member = reinterpret_cast<decltype(driver.member)>(address); }},
#include "device/entry_points.def"
#undef SWY_ENTRY
};

// Finds entry points by cuGetProcAddress in whichever form the driver has, else by the names that it exports.
class Finder {
  public:
    explicit Finder(void* library)
        : library_(library),
          ask_(reinterpret_cast<Ask>(dlsym(library, "cuGetProcAddress_v2"))),
          ask_11_(reinterpret_cast<Ask11>(dlsym(library, "cuGetProcAddress"))) {}

    void* operator()(const Entry& entry) const {
        // Legacy: a stream of 0 then means the context's legacy default stream, however the caller was compiled.
        constexpr cuuint64_t kFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        void* found = nullptr;
        if (ask_ != nullptr) {
            CUdriverProcAddressQueryResult ignored{};
            if (ask_(entry.function, &found, entry.version, kFlags, &ignored) == CUDA_SUCCESS && found != nullptr)
                return found;
        } else if (ask_11_ != nullptr) {
            if (ask_11_(entry.function, &found, entry.version, kFlags) == CUDA_SUCCESS && found != nullptr)
                return found;
        }
        return dlsym(library_, entry.exported);
    }

  private:
    using Ask = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
    using Ask11 = CUresult (*)(const char*, void**, int, cuuint64_t);
    void* library_;
    Ask ask_;
    Ask11 ask_11_;
};

std::string file_of(void* library) {
    const link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name[0] == '\0')
        return kLibrary;
    return map->l_name;
}

std::unique_ptr<const Driver> bind(void* library, std::string& trouble) {
    auto made = std::make_unique<Driver>();
    made->file = file_of(library);
    made->is_virtual = dlsym(library, "vgpu_alias") != nullptr;
    const Finder find(library);
    std::vector<std::string> missing;
    for (const Entry& entry : kEntries) {
        void* address = find(entry);
        if (address == nullptr && entry.need == Need::kRequired)
            missing.emplace_back(entry.exported);
        entry.store(*made, address);
    }
    if (missing.empty())
        return made;
    trouble = fmt::format(
        "{} is loaded as the CUDA driver but has no {}{}: device memory cannot be recognised. Switchyard needs the "
        "driver of CUDA 11.0 or newer (nvidia-smi shows its version); look for another library of this name in "
        "LD_LIBRARY_PATH",
        made->file, missing.front(), missing.size() > 1 ? fmt::format(" and {} more", missing.size() - 1) : "");
    return nullptr;
}

// A driver table that is no longer used: another thread may be in a call through it, so it is never freed.
std::atomic<const Driver*> set_aside{nullptr};

void retire_driver() {
    pointer_query.store(nullptr);
    if (const Driver* retired = the_driver.exchange(nullptr); retired != nullptr)
        set_aside.store(retired);
}

void in_forked_child() {
    forked.store(true);
    retire_driver();
    state.store(DriverState::kNotLoaded);
}

// Binds the driver and publishes it without a lock: waiting for a lock while the dynamic linker's is held could
// deadlock with a library whose constructor communicates. A second thread's result is dropped.
bool publish(void* library) {
    std::string trouble;
    std::unique_ptr<const Driver> made = bind(library, trouble);
    if (made == nullptr) {
        set_problem(std::move(trouble));
        state.store(DriverState::kUnusable);
        dlclose(library);
        return false;
    }
    static const int registered = pthread_atfork(nullptr, nullptr, in_forked_child);
    static_cast<void>(registered);
    find_host_ranges();
    // The query is stored first: whoever sees the driver must find that the query works. Two threads store the same
    // address. The driver's enumerations are passed as ints (cuda.h declares them without a fixed type, which is
    // unsigned int on every platform that CUDA has).
    pointer_query.store(reinterpret_cast<PointerQuery>(made->pointer_get_attribute));
    const Driver* none = nullptr;
    if (the_driver.compare_exchange_strong(none, made.get()))
        static_cast<void>(made.release());  // for the life of the process, and the library stays with it
    else
        dlclose(library);
    state.store(DriverState::kLoaded);
    set_problem("");
    return true;
}

std::string version_of(const Driver& driver) {
    int version = 0;
    if (driver.driver_get_version(&version) != CUDA_SUCCESS || version <= 0)
        return "CUDA";
    return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::string no_device_text() {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    std::string chosen;
    if (visible != nullptr)
        chosen =
            fmt::format("CUDA_VISIBLE_DEVICES is \"{}\": unset it or name devices that nvidia-smi -L lists. ", visible);
    return chosen + "In a container, start it with access to GPUs; with virtual GPUs, set VGPU_COUNT to 1 or more";
}

std::string remedy(CUresult result) {
    switch (result) {
        case CUDA_ERROR_NO_DEVICE:
            return no_device_text();
        case CUDA_ERROR_STUB_LIBRARY:
            return "this is the toolkit's stub for linking: take its folder out of LD_LIBRARY_PATH";
        case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
            return "the driver's library and its kernel module are of different versions: restart the node or reload "
                   "the module, and take CUDA compatibility folders out of LD_LIBRARY_PATH";
        case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
            return "take CUDA compatibility folders out of LD_LIBRARY_PATH";
        case CUDA_ERROR_SYSTEM_NOT_READY:
            return "a service that the GPUs need is not running (nvidia-fabricmanager on nodes with NVSwitch)";
        default:
            return "nvidia-smi and the kernel's log say more";
    }
}

DriverState unusable(const std::string& text) {
    retire_driver();
    set_problem(text);
    state.store(DriverState::kUnusable);
    return DriverState::kUnusable;
}

}  // namespace

DriverState driver_state() {
    return state.load(std::memory_order_acquire);
}

std::string driver_problem() {
    const std::scoped_lock lock(problem().mutex);
    return problem().text;
}

std::string driver_text() {
    const Driver* d = driver();
    return d != nullptr ? fmt::format("{}{}, {}", version_of(*d), d->is_virtual ? " of virtual GPUs" : "", d->file)
                        : "";
}

bool adopt_loaded_driver() {
    if (driver() != nullptr)
        return true;
    // Tested first, since dlopen with RTLD_NOLOAD would search the file system for a library that is not there.
    if (forked.load() || !library_loaded(kLibrary))
        return false;
    void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
    return library != nullptr && publish(library);
}

DriverState load_driver() {
    if (!forked.load() && !adopt_loaded_driver() && driver_state() != DriverState::kUnusable) {
        void* library = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);
        if (library == nullptr) {
            const char* reason = dlerror();
            set_problem(
                fmt::format("no CUDA driver: {}. A GPU's driver package brings {}; the virtual GPUs' is found with "
                            "LD_LIBRARY_PATH=PREFIX/lib/switchyard/vgpu",
                            reason != nullptr ? reason : kLibrary, kLibrary));
            return DriverState::kNotLoaded;
        }
        publish(library);
    }
    const Driver* d = driver();
    if (d == nullptr)
        return driver_state();
    const CUresult result = d->init(0);
    if (result == CUDA_SUCCESS)
        return DriverState::kLoaded;
    return unusable(result == CUDA_ERROR_NO_DEVICE
                        ? fmt::format("{} ({}) sees no GPU. {}", d->file, version_of(*d), remedy(result))
                        : fmt::format("{} ({}) fails to initialise: {}. What to do: {}", d->file, version_of(*d),
                                      describe(result), remedy(result)));
}

std::string describe(Result result) {
    const auto code = static_cast<CUresult>(result);
    const Driver* d = driver();
    const char* name = nullptr;
    const char* text = nullptr;
    if (d != nullptr && d->get_error_name(code, &name) == CUDA_SUCCESS && name != nullptr) {
        if (d->get_error_string(code, &text) == CUDA_SUCCESS && text != nullptr)
            return fmt::format("{}: {}", name, text);
        return name;
    }
    switch (code) {  // those that this folder returns where no driver is usable
        case CUDA_SUCCESS:
            return "CUDA_SUCCESS: no error";
        case CUDA_ERROR_INVALID_VALUE:
            return "CUDA_ERROR_INVALID_VALUE: invalid argument";
        case CUDA_ERROR_OUT_OF_MEMORY:
            return "CUDA_ERROR_OUT_OF_MEMORY: out of memory";
        case CUDA_ERROR_NOT_INITIALIZED:
            return "CUDA_ERROR_NOT_INITIALIZED: no usable CUDA driver in this process";
        case CUDA_ERROR_INVALID_CONTEXT:
            return "CUDA_ERROR_INVALID_CONTEXT: invalid device context";
        default:
            return fmt::format("CUresult {}", result);
    }
}

}  // namespace swy::device
