// Carries out one step of an operation: drives the links until every exchange is done, or the family is halted, or a
// mismatch is found (VGPU_STRICT). Called on a stream's thread, when it is the operation's turn (ticket_lock.hpp).
#pragma once

#include "vgpu/nccl/exchange.hpp"
#include "vgpu/nccl/family.hpp"

namespace vgpu::nccl {

enum class Outcome { Done, Halted, Failed };

Outcome execute(Family& family, Step& step);

// Runs in place of an operation that must never complete: waits until it is aborted.
Outcome wait_for_halt(Family& family);

}  // namespace vgpu::nccl
