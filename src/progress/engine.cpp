#include "progress/engine.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "call/depth.hpp"
#include "progress/keep_until.hpp"
#include "progress/stall.hpp"
#include "progress/stepping.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::progress {
namespace {

using Callback = int (*)();

// The functions of opal/runtime/opal_progress.h of Open MPI 4.1 and 5.0. A registered callback is called in every turn
// of the progress engine, whichever MPI function waits; it returns how much it has moved, and MPI yields the core when
// nothing has.
struct OpenMpi {
    int (*add)(Callback) = nullptr;
    int (*remove)(Callback) = nullptr;
    void (*progress)() = nullptr;
};
constinit OpenMpi open_mpi{};

enum class Driver : std::uint8_t { kNone, kMpi, kCalls };
constinit Driver driver = Driver::kNone;

OpenMpi find_open_mpi() {
    OpenMpi found;
    void* const library = library_of_mpi();
    if (library == nullptr)
        return found;
    found.add = reinterpret_cast<int (*)(Callback)>(dlsym(library, "opal_progress_register"));
    found.remove = reinterpret_cast<int (*)(Callback)>(dlsym(library, "opal_progress_unregister"));
    found.progress = reinterpret_cast<void (*)()>(dlsym(library, "opal_progress"));
    return found;
}

std::mutex engine_mutex;
// MPI runs its progress inside many of the functions that a step calls.
constinit thread_local bool inside __attribute__((tls_model("initial-exec"))) = false;

using Operations = std::vector<std::shared_ptr<Operation>>;

// The number of questions to MPI in one turn, of which each runs MPI's progress once. Of operations that only ask, the
// oldest is asked about in every turn, as messages of one rank come in order, the others by rotation; a question that
// is answered is not counted.
constexpr int kQuestions = 16, kOfOldest = 1, kOfOthers = 2;

constexpr unsigned kSeldom = 256;  // turns

struct State {
    Operations busy;    // stepped in every turn
    Operations asking;  // operations that only ask, the oldest first
    std::vector<Service> services;
    std::size_t first = 0;  // index in `busy` where the next turn begins: the first that could not ask in the last turn
    std::size_t next = 0;   // index in `asking`
    int questions = 0;
    unsigned turns = 0;
    bool denied = false;
};
State& state() {
    static auto* the_state = new State;  // not destroyed at exit
    return *the_state;
}

bool step_busy(State& s) {
    bool moved = false;
    const std::size_t count = s.busy.size();
    const std::size_t start = s.first < count ? s.first : 0;
    s.first = 0;
    bool denied = false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = (start + i) % count;
        s.denied = false;
        // A step may add operations: the vector may move, the operation stays.
        const std::shared_ptr<Operation> operation = s.busy[at];
        moved |= !operation->done() && operation->step();
        if (s.denied && !denied) {
            denied = true;
            s.first = at;
        }
    }
    return moved;
}

void take_out_done(Operations& from, Operations& done) {
    const auto gone = std::remove_if(from.begin(), from.end(), [](const auto& o) { return o->done(); });
    done.insert(done.end(), std::make_move_iterator(gone), std::make_move_iterator(from.end()));
    from.erase(gone, from.end());
}

// Steps operations of `asking` from `at` on while there are questions left; returns where it has stopped.
std::size_t ask(State& s, std::size_t at, std::size_t end, bool& moved, Operations& done) {
    while (at < std::min(end, s.asking.size()) && s.questions > 0) {
        const std::shared_ptr<Operation> operation = s.asking[at];
        const int questions = s.questions;
        if (!operation->done() && operation->step()) {
            s.questions = questions;
            moved = true;
        }
        if (!operation->done() && operation->only_asks()) {
            ++at;
            continue;
        }
        (operation->done() ? done : s.busy).push_back(operation);
        s.asking.erase(s.asking.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return at;
}

bool step_asking(State& s, Operations& done) {
    bool moved = false;
    s.questions = kOfOldest;
    const std::size_t oldest = ask(s, 0, s.asking.size(), moved, done);
    s.questions = kOfOthers;
    const std::size_t start = std::max(s.next, oldest);
    s.next = ask(s, start, s.asking.size(), moved, done);
    if (s.next >= s.asking.size())
        s.next = ask(s, oldest, start, moved, done);
    return moved;
}

bool step_operations(State& s) {
    Operations done;
    bool moved = step_busy(s);
    moved |= step_asking(s, done);
    take_out_done(s.busy, done);
    alive.fetch_sub(static_cast<int>(done.size()), std::memory_order_relaxed);
    // `done` is destroyed only now that no vector is being changed: that may free much.
    return moved || !done.empty();
}

// Without an operation only the program's own requests are pending, and working in every turn would slow them down. An
// envelope may still come to a watched receive, whose sender waits for an answer: that is an error of the program's,
// and is not urgent.
bool nothing_to_do() {
    static constinit thread_local unsigned turns __attribute__((tls_model("initial-exec"))) = 0;
    if (alive.load(std::memory_order_relaxed) != 0)
        return false;
    return known_requests.load(std::memory_order_relaxed) == 0 || ++turns % kSeldom != 0;
}

int turn() {
    if (nothing_to_do() || inside)
        return 0;
    Waiting::look();
    if (!engine_mutex.try_lock())
        return 0;
    inside = true;
    const call::Inside guard;
    State& s = state();
    s.questions = kQuestions;
    bool moved = false;
    for (const Service service : s.services)
        moved |= service();
    moved |= step_operations(s);
    if (++s.turns % kSeldom == 0)
        drop_kept();
    inside = false;
    engine_mutex.unlock();
    return moved ? 1 : 0;
}

}  // namespace

constinit std::atomic<int> known_requests{0};

constinit std::atomic<int> alive{0};

void* library_of_mpi() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(real::Initialized), &info) == 0)
        return nullptr;
    void* library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (library != nullptr)
        dlclose(library);
    return library;
}

void start_engine() {
    if (engine_runs())
        return;
    open_mpi = find_open_mpi();
    if (open_mpi.add != nullptr && open_mpi.remove != nullptr && open_mpi.add(turn) == 0) {
        driver = Driver::kMpi;
        return;
    }
    driver = Driver::kCalls;
    step_in_calls();
}

void stop_engine() {
    if (driver == Driver::kMpi)
        open_mpi.remove(turn);
    driver = Driver::kNone;
    open_mpi = {};
    const Hold hold;
    // Operations that a program has left behind are not destroyed: a device may still write into their memory.
    for (Operations* operations : {&state().busy, &state().asking}) {
        for (auto& operation : *operations)
            keep_for_ever(std::move(operation));
        operations->clear();
    }
    state().services.clear();
    alive.store(0, std::memory_order_relaxed);
}

bool progress_of_mpi() {
    if (open_mpi.progress == nullptr)
        return false;
    open_mpi.progress();
    if (driver != Driver::kMpi) [[unlikely]]
        turn();
    return true;
}

bool engine_runs() {
    return driver != Driver::kNone;
}

bool calls_step() {
    return driver == Driver::kCalls;
}

void step_in_call() {
    turn();
}

Hold::Hold() {
    engine_mutex.lock();
    inside = true;
}

Hold::~Hold() {
    inside = false;
    engine_mutex.unlock();
}

bool held_here() {
    return inside;
}

std::string under_lock_at_once(const std::function<std::string()>& function) {
    if (inside)
        return {};
    const std::unique_lock lock(engine_mutex, std::try_to_lock);
    if (!lock.owns_lock())
        return {};
    const struct Here {
        Here() { inside = true; }
        ~Here() { inside = false; }
    } here;
    return function();
}

void add(std::shared_ptr<Operation> operation) {
    if (operation->done())
        return;
    alive.fetch_add(1, std::memory_order_relaxed);
    (operation->only_asks() ? state().asking : state().busy).push_back(std::move(operation));
}

void step_at_once(Operation& operation) {
    state().questions = kQuestions;
    while (!operation.done() && operation.step()) {
    }
}

void poll_all() {
    State& s = state();
    Operations done;
    bool moved = false;
    const int questions = std::exchange(s.questions, std::numeric_limits<int>::max());
    ask(s, 0, s.asking.size(), moved, done);
    s.questions = questions;
    alive.fetch_sub(static_cast<int>(done.size()), std::memory_order_relaxed);
}

void add_service(Service service) {
    auto& services = state().services;
    if (std::find(services.begin(), services.end(), service) == services.end())
        services.push_back(service);
}

void drop_services() {
    state().services.clear();
}

void wait_for(const Operation& operation) {
    const auto describe = [&operation] { return under_lock_at_once([&operation] { return operation.describe(); }); };
    const Waiting waiting(describe);
    while (!operation.done())
        progress();
}

bool may_poll() {
    State& s = state();
    if (s.questions > 0) {
        --s.questions;
        return true;
    }
    s.denied = true;
    return false;
}

}  // namespace swy::progress
