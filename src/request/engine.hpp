// The engine steps operations from inside MPI's own progress: Open MPI calls it back whenever it waits for anything, in
// every blocking call, so nothing else has to drive work that is in flight (design section 7).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "request/operation.hpp"

namespace swy::request {

// Registers with Open MPI's progress engine (opal_progress_register, exported by libopen-pal of 4.1 and 5.0). "" or why
// that cannot be. Called by lifecycle; stop() before MPI goes down.
std::string start_engine();
void stop_engine();
bool engine_runs();

// One turn of MPI's progress engine, called directly: false when it is not to be had. request::progress() asks.
bool progress_of_mpi();

// The engine's lock. All state of operations, of matching and of lanes is touched under it alone. A thread that holds
// it may call real MPI functions that do not block: the engine does not run again inside them. Not recursive.
class Hold {
  public:
    Hold();
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
};
bool held_here();  // does this thread hold the lock?

// Steps `operation` from now on until it is done. Under the lock.
void add(std::shared_ptr<Operation> operation);

// Before it is added: does what can be done of it without waiting. Under the lock.
void step_at_once(Operation& operation);

// Work that belongs to no single operation (incoming control messages, lanes in the making, watched receives): stepped
// before the operations; while there are none and the program has requests that are known, now and then. Registered
// once, by start functions.
using Service = bool (*)();  // does not block; true when something moved
void add_service(Service service);
void drop_services();  // under the lock; sessions may go on when MPI_COMM_WORLD, and what served it, is gone

// How many operations and other interests are alive; while 0, the engine costs MPI's progress two comparisons.
extern std::atomic<int> alive;

// Waits until the operation is done, with MPI's progress. Not under the lock. Does not raise.
void wait_for(const Operation& operation);
void turn_once();  // of such waiting, where something else is waited for

// May this step ask MPI about one more request? Each question runs MPI's progress once, so a poll asks a bounded number
// and the next one goes on where it stopped.
bool may_ask();

}  // namespace swy::request
