// The program's stream objects (MPIX_Stream), as MPICH defines them: a handle for a CUDA stream, or for none.
#pragma once

#include <mpix_switchyard.h>

#include <memory>
#include <string>

#include "device/device.hpp"

namespace swy::stream {

struct Object {
    bool cuda = false;  // false: the object has no CUDA stream, and neither has a communicator made with it
    device::StreamHandle handle = nullptr;
};

// Does not throw. `problem` is "", or what is wrong with the info.
MPIX_Stream create(MPI_Info info, std::string& problem);
std::shared_ptr<const Object> find(MPIX_Stream stream);  // null for MPIX_STREAM_NULL and for invalid handles

// Frees the object unless a communicator uses it. Returns "" or why not.
std::string free(MPIX_Stream stream);

// A value in the form in which MPIX_Info_set_hex stores it: two digits a byte, in memory order.
std::string in_hex(const void* value, std::size_t bytes);

}  // namespace swy::stream
