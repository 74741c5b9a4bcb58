#include "request/engine.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "real.hpp"
#include "request/handle.hpp"
#include "request/wait.hpp"
#include "route/depth.hpp"

namespace swy::request {
namespace {

using Callback = int (*)();

// opal/runtime/opal_progress.h of Open MPI 4.1 and 5.0. What is registered is called in every turn of the progress
// engine, whichever MPI function waits; it returns how much it has moved, and MPI yields the core when nothing has.
struct OpenMpi {
    int (*add)(Callback) = nullptr;
    int (*remove)(Callback) = nullptr;
    void (*progress)() = nullptr;
};
constinit OpenMpi open_mpi{};

// The library that the real MPI functions are in finds its own dependencies, wherever they were loaded.
OpenMpi find_open_mpi() {
    OpenMpi found;
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(real::Initialized), &info) == 0)
        return found;
    void* library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr)
        return found;
    found.add = reinterpret_cast<int (*)(Callback)>(dlsym(library, "opal_progress_register"));
    found.remove = reinterpret_cast<int (*)(Callback)>(dlsym(library, "opal_progress_unregister"));
    found.progress = reinterpret_cast<void (*)()>(dlsym(library, "opal_progress"));
    dlclose(library);
    return found;
}

std::mutex mutex;
// MPI runs its progress inside many of the functions that a step calls.
constinit thread_local bool inside __attribute__((tls_model("initial-exec"))) = false;

// Questions to MPI in one turn: enough for a window of messages, few enough that a turn stays short.
constexpr int kQuestions = 16;

struct State {
    std::vector<std::shared_ptr<Operation>> operations;
    std::vector<Service> services;
    std::size_t first = 0;  // where the next turn begins: the first one that could not ask in the last
    int questions = 0;
    bool denied = false;
};
State& state() {
    static auto* the_state = new State;  // not destroyed at exit
    return *the_state;
}

bool step_operations(State& s) {
    bool moved = false;
    const std::size_t count = s.operations.size();
    const std::size_t start = s.first < count ? s.first : 0;
    s.first = 0;
    bool denied = false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = (start + i) % count;
        s.denied = false;
        // A step may add operations: the vector may move, the operation stays.
        const std::shared_ptr<Operation> operation = s.operations[at];
        moved |= !operation->done() && operation->step();
        if (s.denied && !denied) {
            denied = true;
            s.first = at;
        }
    }
    const auto gone = std::remove_if(s.operations.begin(), s.operations.end(), [](const auto& o) { return o->done(); });
    alive.fetch_sub(static_cast<int>(s.operations.end() - gone), std::memory_order_relaxed);
    if (gone != s.operations.end()) {
        // Their destruction may give back much: not while the vector is being changed.
        const std::vector<std::shared_ptr<Operation>> done(std::make_move_iterator(gone),
                                                           std::make_move_iterator(s.operations.end()));
        s.operations.erase(gone, s.operations.end());
        moved = true;
    }
    return moved;
}

// Without an operation there is only the program's own waiting, and every turn would make that slower. An envelope may
// still come to a watched receive, whose sender waits for an answer: that is an error of the program's, and has time.
bool nothing_to_do() {
    constexpr unsigned kSeldom = 256;
    static constinit thread_local unsigned turns __attribute__((tls_model("initial-exec"))) = 0;
    if (alive.load(std::memory_order_relaxed) != 0)
        return false;
    return known_requests.load(std::memory_order_relaxed) == 0 || ++turns % kSeldom != 0;
}

int turn() {
    if (nothing_to_do() || inside || !mutex.try_lock())
        return 0;
    inside = true;
    const route::Inside guard;
    State& s = state();
    s.questions = kQuestions;
    bool moved = false;
    for (const Service service : s.services)
        moved |= service();
    moved |= step_operations(s);
    inside = false;
    mutex.unlock();
    return moved ? 1 : 0;
}

}  // namespace

constinit std::atomic<int> alive{0};

std::string start_engine() {
    if (engine_runs())
        return {};
    open_mpi = find_open_mpi();
    if (open_mpi.add == nullptr || open_mpi.remove == nullptr)
        return "this MPI does not export opal_progress_register, as Open MPI 4.1 and 5.0 do";
    if (open_mpi.add(turn) == 0)
        return {};
    open_mpi = {};
    return "Open MPI's opal_progress_register failed";
}

void stop_engine() {
    if (engine_runs())
        open_mpi.remove(turn);
    open_mpi = {};
    const Hold hold;
    // Those that a program has left behind are not destroyed: a device may still write into their memory.
    for (auto& operation : state().operations)
        new std::shared_ptr<Operation>(std::move(operation));
    state().operations.clear();
    state().services.clear();
    alive.store(0, std::memory_order_relaxed);
}

bool progress_of_mpi() {
    if (open_mpi.progress == nullptr)
        return false;
    open_mpi.progress();
    return true;
}

bool engine_runs() {
    return open_mpi.add != nullptr;
}

Hold::Hold() {
    mutex.lock();
    inside = true;
}

Hold::~Hold() {
    inside = false;
    mutex.unlock();
}

bool held_here() {
    return inside;
}

void add(std::shared_ptr<Operation> operation) {
    if (operation->done())
        return;
    alive.fetch_add(1, std::memory_order_relaxed);
    state().operations.push_back(std::move(operation));
}

void step_at_once(Operation& operation) {
    state().questions = kQuestions;
    while (!operation.done() && operation.step()) {
    }
}

void add_service(Service service) {
    auto& services = state().services;
    if (std::find(services.begin(), services.end(), service) == services.end())
        services.push_back(service);
}

void drop_services() {
    state().services.clear();
}

void turn_once() {
    progress();
    if (!engine_runs()) [[unlikely]]
        turn();
}

void wait_for(const Operation& operation) {
    while (!operation.done())
        turn_once();
}

bool may_ask() {
    State& s = state();
    if (s.questions > 0) {
        --s.questions;
        return true;
    }
    s.denied = true;
    return false;
}

}  // namespace swy::request
