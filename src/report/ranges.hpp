// Ranges for a tool of NVTX (Nsight Systems and others): one for each call with device memory, from when its transport
// has been chosen to its end. There are some where the tool asks by NVTX_INJECTION64_PATH, which Nsight Systems sets.
// Only routes.* and op_record.hpp call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "call/reason.hpp"

namespace swy::report::ranges {

extern bool on;  // from MPI_Init to MPI_Finalize of a process in which a tool asks

// Loads the tool's library, as NVTX does at its first call, where one is named.
void start();
void stop();

// A range of this thread, which ends with the object. Such ranges are nested.
class InThread {
  public:
    InThread() = default;
    InThread(std::string_view call, std::size_t bytes, Carrier carrier, Reason reason);
    ~InThread();
    InThread(const InThread&) = delete;
    InThread& operator=(const InThread&) = delete;

  private:
    bool begun_ = false;
};

// A range of an operation, which may overlap with others and end on another thread: at end(), or with the object.
class OfOperation {
  public:
    OfOperation() = default;
    ~OfOperation() { end(); }
    OfOperation(const OfOperation&) = delete;
    OfOperation& operator=(const OfOperation&) = delete;

    void begin(std::string_view call, std::size_t bytes, Carrier carrier, Reason reason);
    void end() {
        if (begun_) [[unlikely]]
            end_begun();
    }

  private:
    void end_begun();
    bool begun_ = false;
    std::uint64_t id_ = 0;
};

}  // namespace swy::report::ranges
