// Makes communicators: by unique id, by splitting, by shrinking. Each function is one rank's part; it blocks until the
// other ranks have done theirs, and gives up when the communicator, or its parent, is abandoned.
#pragma once

#include <vector>

#include <nccl.h>

#include "vgpu/nccl/communicator.hpp"

namespace vgpu::nccl {

ncclResult_t make_unique_id(ncclUniqueId& id);

// All ranks pass the same ids. They meet at the first one's maker; the others have only to be the same everywhere.
ncclResult_t establish(Communicator& communicator, const std::vector<ncclUniqueId>& ids);

// `number` counts the parent's splits and shrinks, alike on all ranks. `child` is null for a rank without a color.
ncclResult_t split(Communicator& parent, std::uint64_t number, int color, int key, Communicator* child);

// Called by the ranks that stay. `share`: the child uses the parent's connections.
ncclResult_t shrink(Communicator& parent, std::uint64_t number, const std::vector<int>& excluded, bool share,
                    Communicator& child);

}  // namespace vgpu::nccl
