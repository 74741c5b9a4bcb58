// What MPI's tool information interface (MPI 3.1 section 14.3) shows of Switchyard: performance variables, which are
// sums over the report's counters, and control variables, which are the settings. mpi_compat/tool_performance.cpp gives
// them indices and handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "call/reason.hpp"

namespace swy::tool {

enum class Quantity : std::uint8_t { kCalls, kBytes, kNanoseconds };

// A sum over the counters of this process: of one transport, one reason or one MPI function, or of what is named of
// them.
struct Performance {
    std::string name;  // switchyard_nccl_bytes, switchyard_reason_mixed_calls, switchyard_MPI_Send_staged_calls
    std::string description;
    Quantity quantity;
    std::optional<Carrier> carrier;
    std::optional<Reason> reason;
    std::string_view call;  // with its form for large counts; "" is any

    // Now, since MPI_Init. Thread-safe.
    [[nodiscard]] std::uint64_t value() const;
};

// Those of transports first, then of reasons, then of MPI functions. Always the same.
std::span<const Performance> performance();

// From now on calls with device memory are counted. They are not before, where nobody wants a report.
void count_calls();
extern bool counts_calls;

struct Control {
    std::string_view name, description;  // SWITCHYARD_P2P_COMM

    // As `switchyard info` prints it, and in force since MPI_Init; the default before.
    [[nodiscard]] std::string value() const;
};
std::span<const Control> control();

}  // namespace swy::tool
