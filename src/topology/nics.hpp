// The RDMA devices that NCCL should use on a node, computed from the machine's topology. src/nccl sets NCCL_IB_HCA.
#pragma once

#include <string>

#include "topology/machine.hpp"

namespace swy::topology {

// Returns a value for NCCL_IB_HCA: "=mlx5_0,mlx5_1", those RDMA devices with an active port that share a host bridge
// with some GPU of the node; "" where that leaves out none, or where some GPU has none, so that it is not clear which
// are meant for the GPUs. All GPUs of the node count, whoever sees them, since the ranks of a node must give NCCL the
// same: each works out the node's channels by itself.
std::string rdma_devices(const Machine& machine);

// The same on this machine where neither the environment nor NCCL's files of variables say which devices to use;
// "" elsewhere, and at once where there is no RDMA device.
std::string rdma_devices_to_tell();

}  // namespace swy::topology
