// MPI_Reduce_local by a kernel on the device where its buffers are. dispatch/dispatch.cpp calls this.
#pragma once

#include <string>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "datatype/reduction.hpp"
#include "device/device.hpp"

namespace swy::pack {

struct Reducing {
    datatype::Reduction what;
    datatype::ReduceWork work;
    device::Stream stream;
};

// Why MPI must make the call instead: buffers that are not both on one device, a reduction for which there is no kernel
// (or which is an error of the program, which MPI reports), no kernels. kNone: a kernel can make it.
Reason prepare(const Call& call, Reducing& reducing);

// Runs the reduction and returns when it is done. Returns "" or the error.
std::string run(Reducing& reducing);

}  // namespace swy::pack
