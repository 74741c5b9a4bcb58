// What the extension's calls on several buffers of a process (src/ext/multi) keep with a communicator. A slot is one
// buffer of one process; slots are numbered by rank, then by index. A communicator that has been used so has the NCCL
// communicator of its slots.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "call/reason.hpp"
#include "comm/setup.hpp"
#include "comm/state.hpp"
#include "nccl/communicator.hpp"

namespace swy::comm {

// All functions are called under the engine's lock, except those that wait, during which the process makes no other
// such call on the communicator.
class BufferSlots {
  public:
    static std::shared_ptr<BufferSlots> of(State& state);  // made at the first use. Local
    ~BufferSlots();
    BufferSlots(const BufferSlots&) = delete;
    BufferSlots& operator=(const BufferSlots&) = delete;

    // The calls under way, and their exchanges on the communicator itself, which must not be freed before the end of
    // both. await() waits for that, with MPI's progress, not under the lock.
    int calls = 0, exchanges = 0;
    void await();

    // How many buffers each rank had in the last call; empty before the first. A call prepares for these before it has
    // heard from the other ranks.
    std::vector<int> counts;

    // Must `devices`, this process's in order, get an NCCL communicator first? `obstacle` is what keeps them from one.
    bool needs_setup(const std::vector<int>& devices) const;
    bool nccl_failed() const { return nccl != nullptr && !nccl->usable(); }
    Reason obstacle = Reason::kNone;
    std::shared_ptr<nccl::Communicator> nccl;

    // This process's set-ups of an NCCL communicator, started and ended: all ranks start the same ones, each when it
    // has ended the one before. They set the fields above, alike on all ranks but not at the same time.
    std::uint64_t begun = 0, ended = 0;
    void end_setup(const std::vector<int>& devices, Setup::Result& result);

    void retire();  // called when the communicator is being freed, after await()

  private:
    BufferSlots() = default;
    bool tried_ = false;
    std::vector<int> devices_;  // this process's devices, to which `nccl` or `obstacle` belongs
};

}  // namespace swy::comm
