// MPI_Reduce_local on the device where its buffers are, by a kernel. The router asks.
#pragma once

#include <string>

#include "datatype/reduction.hpp"
#include "device/device.hpp"
#include "route/call.hpp"
#include "route/reason.hpp"

namespace swy::carrier::peer {

struct Reducing {
    datatype::Reduction what;
    datatype::ReduceWork work;
    device::Lane lane;
};

// Why that is for MPI: buffers that are not both on one device, a reduction that no kernel makes (or that is an error
// of the program's, which MPI reports), no kernels. kNone: it is not.
Reason prepare(const Call& call, Reducing& reducing);

// Returns when it is done; what went wrong, as text.
std::string run(Reducing& reducing);

}  // namespace swy::carrier::peer
