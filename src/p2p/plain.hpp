// What a door must know of point-to-point on host memory: an envelope may arrive where a payload is expected. Only
// doors use it; what it adds to a call is counted by tests/bench/instructions.test.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "datatype/quick.hpp"
#include "p2p/envelope.hpp"
#include "request/handle.hpp"
#include "route/call.hpp"

namespace swy::p2p {

// This job sends envelopes; settled at MPI_Init.
[[gnu::visibility("hidden")]] extern bool envelopes;

// Messages that probes have found, or matched, and that wait for their receive; one more where receives have to look in
// any case (probe.cpp).
[[gnu::visibility("hidden")]] extern std::atomic<int> kept;

// SWITCHYARD_P2P_THRESHOLD of the job's first rank: no envelope stands for a smaller message. The largest number there
// is in a job without envelopes.
[[gnu::visibility("hidden")]] extern std::size_t limit;

// A real receive into plain host memory, the first operand that may be written, has returned `code` and a status of the
// envelope's length, in `status`. Settles the transfer when it is an envelope; MPI's code.
int received_on_host(const Call& call, int code, MPI_Status& status);

inline bool none_kept() {
    return kept.load(std::memory_order_relaxed) == 0;
}

// May a receive that fails return? Not before the program has given a communicator another error handler than the one
// that ends the job. Then one that is too small for an envelope has received none, if it returns. Of blocking ones: the
// program may do that while another is pending.
[[gnu::visibility("hidden")]] extern std::atomic<bool> errors_return;

inline bool has_no_envelope(MPI_Count count, MPI_Datatype type) {
    std::size_t size = 0;
    const auto elements = static_cast<std::size_t>(count);
    return datatype::size_is_known(type, size) && elements < kEnvelopeBytes && elements * size < kEnvelopeBytes &&
           !errors_return.load(std::memory_order_relaxed);
}

// A matched probe of the program's has found a message on the communicator. The receive that follows does not name it,
// and its errors are the communicator's.
void remember(MPI_Message message, MPI_Comm comm);

// The same after a real one, which has returned `code`; `flag` is that of one that does not block.
inline int found(int code, const MPI_Message* message, MPI_Comm comm, const int* flag = nullptr) {
    if (code == MPI_SUCCESS && (flag == nullptr || *flag != 0))
        remember(*message, comm);
    return code;
}

// The status that the real call fills: the program's, or ours where it wants none. What it held is no length.
inline MPI_Status* to_see(MPI_Status* wanted, MPI_Status& own) {
    MPI_Status* const seen = wanted != MPI_STATUS_IGNORE ? wanted : &own;
    seen->_ucount = 0;
    return seen;
}

inline bool is_envelope(const MPI_Status& status) {
    return status._ucount == kEnvelopeBytes && envelopes;
}

// After a receive into `bytes` of plain memory that asked MPI for no status, since filling one takes Open MPI longer
// than all that a door does: may it be an envelope? Only where the source and the tag were given. Memory in which one
// was found is cleared of it, so none can be left of an earlier message.
[[gnu::visibility("hidden")]] extern std::uint64_t secret_word;  // the first of the job's secret
bool is_truncation(int code);

inline bool may_be_envelope(int code, const void* address, std::size_t bytes) {
    if (bytes < kEnvelopeBytes)
        return code != MPI_SUCCESS && envelopes && is_truncation(code);
    if (code != MPI_SUCCESS)
        return false;
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(address) + kNamingBytes, sizeof word);
    return word == secret_word && envelopes;
}

// What MPI would have said of it.
inline MPI_Status* as_envelope(MPI_Status& status, int source, int tag) {
    status = MPI_Status{};
    status.MPI_SOURCE = source;
    status.MPI_TAG = tag;
    status._ucount = kEnvelopeBytes;
    return &status;
}

// Plain, and too small for a message that an envelope may stand for? A count that is not valid is not.
inline bool under_limit(MPI_Count count, std::size_t size) {
    std::size_t bytes = 0;
    return size != 0 && !__builtin_mul_overflow(static_cast<std::size_t>(count), size, &bytes) && bytes < limit;
}
inline bool under_limit(MPI_Count count, MPI_Datatype type) {
    return under_limit(count, datatype::predefined_size(type));
}
inline bool surely_under_limit(MPI_Count count, MPI_Datatype type) {
    return datatype::surely_predefined(type) && under_limit(count, datatype::known_size(type));
}

// What says where an envelope's bytes lie; null for a type without gaps that MPI has defined: one after the other.
std::shared_ptr<const datatype::Layout> layout_with_gaps(MPI_Datatype type);

// Has the request of a receive that has been begun watched, where an envelope may come. Returns `code`, the real
// call's.
inline int watched(CallId id, int code, void* address, MPI_Count count, MPI_Datatype type, int source, MPI_Comm comm,
                   const MPI_Request* request) {
    if (envelopes && code == MPI_SUCCESS && source != MPI_PROC_NULL) {
        const auto elements = static_cast<std::size_t>(count);
        request::watch(*request,
                       {.address = address,
                        .count = elements,
                        .bytes = elements * datatype::predefined_size(type),
                        .layout = datatype::surely_predefined(type) ? nullptr : layout_with_gaps(type),
                        .comm = comm,
                        .call = id},
                       false);
    }
    return code;
}

}  // namespace swy::p2p
