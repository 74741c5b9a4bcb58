// The driver watch notices a CUDA driver that is loaded while the program runs, for the price of two loads a call: the
// dynamic linker appends a new library to its list, so the last library that was seen has a successor then. Reading its
// entry is safe only while it is loaded.
//
// A reference of Switchyard's (RTLD_NODELETE even more) would keep it loaded, but the program could notice that for a
// library that it closes: one that is rebuilt, closed and opened again under its name would stay the old one. So only
// entries are read of libraries that the program cannot unload: those it was started with, and those that MPI loaded in
// MPI_Init, which are held by a reference until MPI_Finalize. When the program has loaded something after them, or when
// the last library is neither, each call asks the dynamic linker's count of loads instead, which takes some tens of
// nanoseconds.
#include "fastpath/driver_watch.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "device/libraries.hpp"

namespace swy::driver_watch {
namespace {

using device::Library;

constinit link_map quiet{};  // has no successor: changed() is false
constinit link_map restless{.l_addr = 0, .l_name = nullptr, .l_ld = nullptr, .l_next = &quiet, .l_prev = nullptr};

std::atomic<unsigned long long> seen_loads{0};

// References to libraries of MPI's: more than one where MPI_Init follows MPI_Session_init. Not destroyed at exit.
std::vector<void*>& held() {
    static auto* references = new std::vector<void*>;
    return *references;
}

// Not destroyed at exit.
std::set<std::uintptr_t>& before_mpi() {
    static auto* bases = new std::set<std::uintptr_t>;
    return *bases;
}

std::string_view file_part(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

// The names by which a library can be needed or preloaded.
bool answers_to(const Library& library, std::string_view name) {
    return library.soname == name || library.name == name || file_part(library.name) == file_part(name);
}

// Tells whether the library was there when the program started: the program's own libraries, preloaded ones, and what
// these need. The loader is always there. Where the answer is in doubt it is no.
bool from_the_start(const std::vector<Library>& all, const Library& asked) {
    std::vector<std::string> wanted = all.front().needed;
    const char* preload = std::getenv("LD_PRELOAD");
    std::string_view rest = preload != nullptr ? preload : "";
    while (!rest.empty()) {
        const std::size_t end = rest.find_first_of(" :");
        if (end != 0)
            wanted.emplace_back(rest.substr(0, end));
        rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    }
    std::set<std::string> known;
    while (!wanted.empty()) {
        const std::string name = std::move(wanted.back());
        wanted.pop_back();
        if (!known.insert(name).second)
            continue;
        for (const Library& library : all)
            if (answers_to(library, name))
                wanted.insert(wanted.end(), library.needed.begin(), library.needed.end());
    }
    return std::any_of(known.begin(), known.end(), [&](const std::string& name) { return answers_to(asked, name); });
}

// Holds a reference to a library, and ends it with the scope unless it is kept.
struct Reference {
    explicit Reference(const std::string& file) : handle(dlopen(file.c_str(), RTLD_NOLOAD | RTLD_LAZY)) {}
    ~Reference() {
        if (handle != nullptr)
            dlclose(handle);
    }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;
    void* keep() { return std::exchange(handle, nullptr); }
    void* handle;
};

// Returns the entry to read from now on; `restless` when the last library may be unloaded.
const link_map* last_library() {
    const std::vector<Library> all = device::libraries();
    if (all.empty() || all.back().name.empty())
        return &restless;
    const Library& last = all.back();
    const bool started_with = from_the_start(all, last);
    const bool from_mpi = !before_mpi().empty() && before_mpi().count(last.base) == 0;
    if (!started_with && !from_mpi)
        return &restless;
    Reference reference(last.name);
    link_map* entry = nullptr;
    if (reference.handle == nullptr || dlinfo(reference.handle, RTLD_DI_LINKMAP, &entry) != 0 || entry == nullptr ||
        entry->l_addr != last.base)
        return &restless;
    if (!started_with)
        held().push_back(reference.keep());
    return entry;
}

void open_from(std::initializer_list<State> states, State to) {
    for (State expected : states)
        state.compare_exchange_strong(expected, to);
}

void opened_by_driver() {
    last_seen.store(&quiet, std::memory_order_release);
    open_from({State::kClosed, State::kExpecting}, State::kOpen);
}

}  // namespace

constinit std::atomic<State> state{State::kClosed};
constinit std::atomic<const link_map*> last_seen{&quiet};

void open() {
    open_from({State::kClosed}, State::kExpecting);
}

void watch_calls() {
    state.store(State::kWatched);
}

void close() {
    state.store(State::kClosed, std::memory_order_relaxed);
}

State refresh() {
    // Read before the search: a library that is loaded meanwhile changes the count again.
    const unsigned long long loads = device::loads_so_far();
    if (loads != seen_loads.load(std::memory_order_acquire)) {
        if (device::adopt_loaded_driver())
            opened_by_driver();
        seen_loads.store(loads, std::memory_order_release);
    }
    return state.load(std::memory_order_relaxed);
}

void before_init() {
    for (const Library& library : device::libraries())
        before_mpi().insert(library.base);
}

void watch() {
    const unsigned long long loads = device::loads_so_far();
    if (device::adopt_loaded_driver()) {
        opened_by_driver();
        return;
    }
    seen_loads.store(loads, std::memory_order_release);
    // A library that is loaded meanwhile is either the last one's successor or changes the count.
    last_seen.store(last_library(), std::memory_order_release);
    if (device::loads_so_far() != loads)
        refresh();
}

void unwatch() {
    last_seen.store(&quiet, std::memory_order_release);
    for (void* reference : std::exchange(held(), {}))
        dlclose(reference);
}

}  // namespace swy::driver_watch
