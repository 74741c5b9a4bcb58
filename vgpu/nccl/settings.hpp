// The variables that the virtual NCCL reads, once, at first use.
#pragma once

#include <cstddef>

namespace vgpu::nccl {

struct Settings {
    bool strict = false;     // VGPU_STRICT=1: operations that would hang or corrupt data are named and fail
    std::size_t buffer = 0;  // VGPU_NCCL_BUFFER: bytes to one peer that a send may leave behind without its receive
    bool alone = false;      // VGPU_NCCL_ALONE=1: operations of a process on a device run one at a time
    int version = 0;         // VGPU_NCCL_VERSION=2.18 ... : the simulated version, as ncclGetVersion's code
    bool multi_rank_gpu =
        false;  // NCCL_MULTI_RANK_GPU_ENABLE=1: two ranks may share a device (NCCL has it from 2.30 on)
    bool check_pointers = false;  // NCCL_CHECK_POINTERS=1
    bool runtime_connect = true;  // NCCL_RUNTIME_CONNECT=0: all connections for collectives are made at once
};

const Settings& settings();

}  // namespace vgpu::nccl
