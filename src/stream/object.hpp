// The program's stream objects (MPIX_Stream), with the meaning that MPICH gave them: a handle for a CUDA stream, or for
// none.
#pragma once

#include <mpix_switchyard.h>

#include <memory>
#include <string>

#include "device/device.hpp"

namespace swy::stream {

struct Object {
    bool cuda = false;  // else a stream of no kind, with which a communicator has no CUDA stream
    device::StreamHandle handle = nullptr;
};

// Throws nothing. "" in `problem`, or what is wrong with the info.
MPIX_Stream create(MPI_Info info, std::string& problem);
std::shared_ptr<const Object> find(MPIX_Stream stream);  // null for MPIX_STREAM_NULL and what is none

// Not while a communicator has it. "" or why not.
std::string free(MPIX_Stream stream);

// A value in the form in which MPIX_Info_set_hex keeps it: two digits a byte, in the order of memory.
std::string in_hex(const void* value, std::size_t bytes);

}  // namespace swy::stream
