// What a door asks in a job with GPUs: host memory in blocks of predefined types passes with a look at each buffer and
// no more. What this adds to a call is counted by tests/bench/instructions.test. Only doors use it.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "datatype/quick.hpp"
#include "device/device.hpp"
#include "real.hpp"
#include "route/depth.hpp"
#include "route/gate.hpp"
#include "route/job.hpp"

namespace swy::route {

// Not a call that MPI makes itself.
inline bool outside_mpi() {
    return depth == 0;
}

// For a buffer of a plain type, whose data begins at its address.
inline bool on_host(const void* address) {
    return !device::on_device(address);
}
inline bool in_place_or_on_host(const void* address) {
    return address == MPI_IN_PLACE || on_host(address);
}
inline bool plain(MPI_Datatype type) {
    return datatype::predefined(type);
}

// A routed collective of a plain type that needs no agreement for its size, which is the same on all ranks.
inline bool small(MPI_Count count, std::size_t size) {
    return size != 0 && (!job_agrees || (count >= 0 && static_cast<std::size_t>(count) * size < threshold));
}
inline bool small(MPI_Count count, MPI_Datatype type) {
    return small(count, datatype::predefined_size(type));
}

// A count that is not valid is MPI's to refuse, so it does not matter on which side of the threshold it comes out.
inline bool surely_small(MPI_Count count, MPI_Datatype type) {
    std::size_t size = 0;
    return datatype::size_is_known(type, size) && (!job_agrees || static_cast<std::size_t>(count) * size < threshold);
}

// For as many elements a rank.
inline bool small_on_all(MPI_Count count, MPI_Datatype type, MPI_Comm comm) {
    if (!job_agrees || comm == MPI_COMM_NULL)
        return plain(type);
    int ranks = 0;
    real::Comm_size(comm, &ranks);
    return small(count * ranks, type);
}

}  // namespace swy::route
