// Which RDMA devices NCCL should use on a node. Plain functions of a machine; what is done with the answer is in
// src/nccl.
#pragma once

#include <string>

#include "topology/machine.hpp"

namespace swy::topology {

// What NCCL_IB_HCA would be: "=mlx5_0,mlx5_1", those RDMA devices with an active port that share a host bridge with
// some GPU of the node; "" where that leaves out none, or where some GPU has none, so that it is not clear which are
// meant for the GPUs. All GPUs of the node count, whoever sees them, since the ranks of a node must tell NCCL the same:
// each works out the node's channels by itself.
std::string rdma_devices(const Machine& machine);

// The same on the machine at hand where nobody has told NCCL which devices to use, in the environment or in its files;
// "" elsewhere, and at once where there is no RDMA device.
std::string rdma_devices_to_tell();

}  // namespace swy::topology
