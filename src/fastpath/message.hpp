// What a wrapper must know of point-to-point on host memory: an envelope may arrive where a payload is expected. Only
// wrappers use it; tests/bench/instructions.test counts what it adds to a call.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "call/call.hpp"
#include "call/envelope.hpp"
#include "datatype/quick.hpp"
#include "request/handle.hpp"

namespace swy::fastpath {

// Whether this job sends envelopes; agreed on at MPI_Init.
[[gnu::visibility("hidden")]] extern bool envelopes;

// The number of messages that probes have found, or matched, and that wait for their receive; one more with
// MPI_THREAD_MULTIPLE, where another thread may find the next one at any time. While it is not 0, receives and probes
// have to look there (p2p/probe.hpp).
[[gnu::visibility("hidden")]] extern std::atomic<int> probed_messages;

// SWITCHYARD_P2P_THRESHOLD of the job's first rank: no envelope stands for a smaller message. In a job without
// envelopes it is the largest number there is.
[[gnu::visibility("hidden")]] extern std::size_t limit;

// A receive without blocking into host memory with less room may be given to MPI at once: all there are until an
// envelope has come to host memory in this process. From then on one from `limit` on may share its buffer with no other
// (p2p/shared_receive_buffer.hpp). `limit` where several threads call MPI.
[[gnu::visibility("hidden")]] extern std::size_t watchable;

inline bool none_probed() {
    return probed_messages.load(std::memory_order_relaxed) == 0;
}

// Whether a receive that fails may return. It cannot before the program has given a communicator another error handler
// than the one that ends the job; until then a receive that is too small for an envelope has received none, if it
// returns. This holds for blocking receives: the program may set the handler while a non-blocking one is pending.
[[gnu::visibility("hidden")]] extern std::atomic<bool> errors_return;

inline bool has_no_envelope(MPI_Count count, MPI_Datatype type) {
    std::size_t size = 0;
    const auto elements = static_cast<std::size_t>(count);
    return datatype::size_is_known(type, size) && elements < call::kEnvelopeBytes &&
           elements * size < call::kEnvelopeBytes && !errors_return.load(std::memory_order_relaxed);
}

// Sends of synchronous mode complete when a receive has been matched (MPI 4.0 section 3.4), and a probe has to receive
// what is as long as an envelope to see whether it is one. So such a send of host memory, of just that length, is sent
// as an envelope itself, and its payload comes in a control message. When MPI has matched it the sender asks the
// receiver whether that was a probe, and is complete when it was not, or when a receive has been matched with it since.
inline bool is_as_long_as_envelope(MPI_Count count, MPI_Datatype type) {
    return static_cast<std::size_t>(count) * datatype::predefined_size(type) == call::kEnvelopeBytes && envelopes;
}

// Returns the status that the real call fills: the program's, or `own` where it wants none. The count is cleared, so
// that no old value is taken for a length.
inline MPI_Status* to_see(MPI_Status* wanted, MPI_Status& own) {
    MPI_Status* const seen = wanted != MPI_STATUS_IGNORE ? wanted : &own;
    seen->_ucount = 0;
    return seen;
}

inline bool is_envelope(const MPI_Status& status) {
    return status._ucount == call::kEnvelopeBytes && envelopes;
}

// Tells whether the buffer has room for an envelope. If not, only the status tells that one may have come.
inline bool has_room(MPI_Count count, MPI_Datatype type) {
    return static_cast<std::size_t>(count) * datatype::known_size(type) >= call::kEnvelopeBytes;
}

// For a receive into host memory with such room that asked MPI for no status, since filling one takes Open MPI longer
// than all that a wrapper does: tells whether its message may be an envelope. Used only where the source and the tag
// were given. Memory in which an envelope was found is cleared of it, so none can be left of an earlier message.
[[gnu::visibility("hidden")]] extern std::uint64_t secret_word;  // the first word of the job's secret

inline bool may_be_envelope(int code, const void* address) {
    if (code != MPI_SUCCESS)
        return false;
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(address) + call::kNamingBytes, sizeof word);
    return word == secret_word && envelopes;
}

// Returns the status that MPI would have returned for the envelope.
inline MPI_Status* as_envelope(MPI_Status& status, int source, int tag) {
    status = MPI_Status{};
    status.MPI_SOURCE = source;
    status.MPI_TAG = tag;
    status._ucount = call::kEnvelopeBytes;
    return &status;
}

// Tells whether the type is predefined and the message too small for an envelope to stand for it. False for an invalid
// count.
inline bool under_limit(MPI_Count count, std::size_t size) {
    std::size_t bytes = 0;
    return size != 0 && !__builtin_mul_overflow(static_cast<std::size_t>(count), size, &bytes) && bytes < limit;
}
inline bool under_limit(MPI_Count count, MPI_Datatype type) {
    return under_limit(count, datatype::predefined_size(type));
}
inline bool known_under_limit(MPI_Count count, MPI_Datatype type) {
    return datatype::known_predefined(type) && under_limit(count, datatype::known_size(type));
}

// A receive of MPI's own that has room for fewer bytes need not be watched as long as none that fails returns: MPI
// itself reports that a message there is too long, and what it leaves of an envelope lacks 8 bytes of checksum or more,
// which no later message into the same memory can make good by chance. Where it returns, the sender has to be released.
inline constexpr std::size_t kLeastWatched = call::kEnvelopeBytes - sizeof(std::uint64_t);

inline bool is_unwatched(std::size_t bytes) {
    return bytes < kLeastWatched && !errors_return.load(std::memory_order_relaxed);
}

// False for a type of the program's and one that has not been looked up yet.
inline bool known_unwatched(MPI_Count count, MPI_Datatype type) {
    const auto elements = static_cast<std::size_t>(count);
    return datatype::known_predefined(type) && elements < kLeastWatched &&
           is_unwatched(elements * datatype::known_size(type));
}

// The same for types and sizes of receives that are given to MPI and watched.
inline bool known_watchable(MPI_Count count, MPI_Datatype type) {
    std::size_t bytes = 0;
    return datatype::known_predefined(type) &&
           !__builtin_mul_overflow(static_cast<std::size_t>(count), datatype::known_size(type), &bytes) &&
           bytes < watchable;
}

// Returns the layout that says where an envelope's bytes lie; null for a predefined type without gaps, where they lie
// one after the other.
std::shared_ptr<const datatype::Layout> layout_with_gaps(MPI_Datatype type);

// Watches a receive that may be of a large message.
void watch_large(MPI_Request request, request::HostReceive&& receive);

// Watches the request of a receive that has been started, where an envelope may come. Returns `code`, the real call's.
inline int watched(CallId id, int code, void* address, MPI_Count count, MPI_Datatype type, int source, MPI_Comm comm,
                   const MPI_Request* request) {
    const auto elements = static_cast<std::size_t>(count);
    const std::size_t bytes = elements * datatype::predefined_size(type);
    if (is_unwatched(bytes) || !envelopes || code != MPI_SUCCESS || source == MPI_PROC_NULL)
        return code;
    request::HostReceive receive{.address = address,
                                 .count = elements,
                                 .bytes = bytes,
                                 .layout = datatype::known_predefined(type) ? nullptr : layout_with_gaps(type),
                                 .comm = comm,
                                 .call = id};
    if (bytes < limit)
        request::watch(*request, std::move(receive));
    else
        watch_large(*request, std::move(receive));
    return code;
}

}  // namespace swy::fastpath
