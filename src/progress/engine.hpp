// The engine steps operations from inside MPI's own progress: Open MPI calls it back whenever it waits for anything, in
// every blocking call, so nothing else has to drive pending operations. Where MPI does not offer that, the calls that
// complete or wait step it themselves (stepping.hpp, comm/gates.hpp).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "progress/operation.hpp"

namespace swy::progress {

// Registers with Open MPI's progress engine (opal_progress_register, exported by libopen-pal of 4.1 and 5.0), or, where
// that cannot be, replaces the real calls that complete or wait. init/lifecycle.cpp calls it, and stop_engine() before
// MPI_Finalize.
void start_engine();
void stop_engine();
bool engine_runs();
bool calls_step();  // has start_engine() replaced the real calls?

// Takes one step on behalf of a call of MPI, where calls_step(). Does not block.
void step_in_call();

// Returns a dlopen handle of the library that the real MPI functions are in, null where there is none. dlsym on it
// finds that library's symbols and its dependencies', wherever it was loaded; it is valid as long as MPI is loaded.
void* library_of_mpi();

// Runs one turn of MPI's progress engine by a direct call, and of this one. Returns false when MPI's is not available.
// progress() of wait.hpp calls it.
bool progress_of_mpi();

// The engine's lock. All state of operations, of matching and of pair communicators is used under it alone. A thread
// that holds it may call real MPI functions that do not block: the engine does not run again inside them. Not
// recursive.
class Hold {
  public:
    Hold();
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
};
bool held_here();  // does this thread hold the lock?

// Calls `function` under the lock where that is free at once; otherwise returns "". For who must not wait for another
// thread inside MPI's progress.
std::string under_lock_at_once(const std::function<std::string()>& function);

// Steps `operation` from now on until it is done. Called under the lock.
void add(std::shared_ptr<Operation> operation);

// The number of requests that are Switchyard's or watched, and one more while completion calls are timed. While it is
// 0, completion wrappers call the real functions.
[[gnu::visibility("hidden")]] extern std::atomic<int> known_requests;

// Steps an operation, before it is added, as far as it gets without waiting. Called under the lock.
void step_at_once(Operation& operation);

// Asks MPI about the requests of all operations that only ask, as each turn does for a few. Called under the lock, not
// in a step.
void poll_all();

// A service: work that belongs to no single operation (incoming control messages, pair communicators in set-up, watched
// receives). Services are stepped before the operations; while there are no operations but the program has known
// requests, they are stepped now and then. Each is registered once, by start functions.
using Service = bool (*)();  // does not block; returns true when something moved
void add_service(Service service);
void drop_services();  // under the lock; sessions may go on when MPI_COMM_WORLD, and what served it, is gone

// The number of operations and other interests that are alive; while it is 0, the engine costs MPI's progress two
// comparisons.
extern std::atomic<int> alive;

// Waits until the operation is done, with MPI's progress. Not called under the lock. Raises no error.
void wait_for(const Operation& operation);

// Tells whether this step may ask MPI about one more request. Each question runs MPI's progress once, so one turn asks
// a bounded number and the next one goes on where it stopped.
bool may_poll();

}  // namespace swy::progress
