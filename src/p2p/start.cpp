#include "p2p/start.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "comm/where.hpp"
#include "comm/world.hpp"
#include "datatype/quick.hpp"
#include "device/scratch.hpp"
#include "error/error.hpp"
#include "fastpath/message.hpp"
#include "p2p/probed_messages.hpp"
#include "p2p/receive.hpp"
#include "p2p/service.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "settings/settings.hpp"
#include "staging/limited_transfer.hpp"
#include "staging/pipeline.hpp"
#include "staging/staged.hpp"

namespace swy::p2p {
namespace {

// The address that MPI gets in place of a device address whose memory it will not access.
alignas(64) std::byte nowhere[64];

// Invalid arguments are passed to MPI, which says what is wrong with them.
bool plausible(const Operand& operand) {
    return operand.count >= 0 && operand.type != MPI_DATATYPE_NULL;
}

// Returns one operand as a call of its own: the staged carrier, which tells where the operand lies, judges operands by
// the whole call.
Call part_of(const Call& call, const Operand& operand, CallId as) {
    Call part{.id = as, .owner = call.owner, .operands = {&operand, 1}};
    part.root = 0;  // there is a peer: MPI_PROC_NULL has been handled before
    return part;
}

pack::Payload payload(const Call& call, const Operand& operand, CallId as) {
    const Call part = part_of(call, operand, as);
    return pack::payload_of(part, operand,
                            call.matching != nullptr ? call.matching->buffers : std::span<const Operand>());
}

template <typename Op>
Started started(std::shared_ptr<Op> operation, int code) {
    if (code != MPI_SUCCESS)
        return {nullptr, code};
    // A message that is there already has arrived when its receive returns: programs expect it of the MPI_Test that
    // follows.
    if constexpr (std::is_same_v<Op, Receive>)
        progress::step_at_once(*operation);
    progress::add(operation);
    return {std::move(operation), code};
}

int no_memory(const Call& call, std::size_t bytes) {
    return error::raise(call, MPI_ERR_NO_MEM,
                        fmt::format("{}: no host memory for {} bytes", comm::where(call.id, call.owner), bytes));
}

// Sends from the program's host memory, or from an address whose memory MPI will not access.
Started send_from_host(const Call& call, const Operand& operand, int dest, int tag, Mode mode) {
    const std::size_t bytes =
        plausible(operand) ? static_cast<std::size_t>(operand.count) * datatype::size_of(operand.type) : 0;
    auto send = std::make_shared<EagerSend>(call.id, call.owner.comm, bytes);
    const bool foreign_address = !settings::values().cuda_aware_mpi && device::on_device(operand.address);
    const void* address = foreign_address ? nowhere : operand.address;
    const progress::Hold hold;
    const int rc = send->post(mode, address, operand.count, operand.type, dest, tag);
    return started(std::move(send), rc);
}

Reason why_ordinary(const pack::Payload& data, const comm::State* state, Mode mode) {
    if (mode == Mode::kBuffered)
        return Reason::kBuffered;
    if (data.bytes < settings::values().p2p_threshold)
        return Reason::kSmall;
    return state == nullptr ? Reason::kNoMemory : Reason::kSpansJobs;
}

// Returns the receiver's rank in MPI_COMM_WORLD where an envelope can be sent to it; -1 otherwise.
int receiver_by_envelope(const pack::Payload& data, comm::State* state, int dest, Mode mode, std::size_t least) {
    if (!fastpath::envelopes || mode == Mode::kBuffered || data.bytes < least || state == nullptr || state->spans_jobs)
        return -1;
    const progress::Hold hold;
    return comm::world_rank(*state, dest);
}

// Handles a message whose data cannot be had: its receiver would wait for it, and gets an error instead.
void refuse(const Call& call, const pack::Payload& data, int dest, int tag, Mode mode, const std::string& why) {
    comm::State* state = comm::of(call.owner.comm);
    const int to = receiver_by_envelope(data, state, dest, mode, 0);
    if (to < 0)
        return;
    auto send = std::make_shared<Send>(call.id, call.owner.comm, data, dest, tag);
    send->refuse(why);
    const progress::Hold hold;
    if (send->post(mode, *state, to) == MPI_SUCCESS)
        progress::add(std::move(send));
}

// Sends an ordinary message from a copy in host memory. The copy is complete when this returns, so that later messages
// do not overtake it.
Started send_copy(const Call& call, const pack::Payload& data, int dest, int tag, Mode mode, Reason reason) {
    auto send = std::make_shared<EagerSend>(call.id, call.owner.comm, data.bytes);
    if (data.device)
        send->record().route(Carrier::kStaged, reason, data.bytes);
    bool has_memory = false;
    {
        const progress::Hold hold;
        has_memory = send->copy().acquire(data.where.context, data.bytes);
    }
    if (!has_memory)
        return {nullptr, no_memory(call, data.bytes)};
    auto packing = staging::pack(data, send->copy().data(), send->copy().page_locked());
    if (const std::string failure = staging::complete(std::move(packing), send); !failure.empty()) {
        refuse(call, data, dest, tag, mode, failure);
        return {nullptr,
                error::raise(call, MPI_ERR_OTHER, fmt::format("{}: {}", comm::where(call.id, call.owner), failure))};
    }
    send->copy().touched(data.bytes);
    if (data.device && reason == Reason::kSpansJobs)
        send->limit_time();
    const progress::Hold hold;
    const int rc = send->post(mode, send->copy().data(), static_cast<MPI_Count>(data.bytes), MPI_BYTE, dest, tag);
    return started(std::move(send), rc);
}

Started send_envelope(const Call& call, pack::Payload data, comm::State& state, int dest, int tag, Mode mode, int to,
                      std::shared_ptr<void> owner) {
    auto send = std::make_shared<Send>(call.id, call.owner.comm, std::move(data), dest, tag);
    send->keep(std::move(owner));
    const progress::Hold hold;
    const int rc = send->post(mode, state, to);
    return started(std::move(send), rc);
}

// Returns the receiver's rank in MPI_COMM_WORLD where a host message of that mode must not be received by a probe
// (fastpath/message.hpp); -1 otherwise. A communicator that spans jobs carries no envelopes, and its probes know that.
int receiver_of_synchronous(const Call& call, const Operand& operand, int dest, Mode mode) {
    if (mode != Mode::kSynchronous || dest == MPI_PROC_NULL || !is_as_long_as_envelope(operand))
        return -1;
    comm::State* state = comm::of(call.owner.comm);
    if (state == nullptr || state->spans_jobs)
        return -1;
    const progress::Hold hold;
    return comm::world_rank(*state, dest);
}

Started send_synchronous(const Call& call, const Operand& operand, int dest, int tag, int to) {
    pack::Payload data = payload(call, operand, CallId::kIsend);
    call::EnvelopeBytes bytes{};
    if (const std::string failure = staging::complete(staging::pack(data, bytes.data(), false), nullptr);
        !failure.empty())
        return {nullptr,
                error::raise(call, MPI_ERR_OTHER, fmt::format("{}: {}", comm::where(call.id, call.owner), failure))};
    auto send = std::make_shared<Send>(call.id, call.owner.comm, std::move(data), dest, tag);
    const progress::Hold hold;
    const int rc = send->post_with(bytes, *comm::of(call.owner.comm), to);
    return started(std::move(send), rc);
}

// Returns what MPI receives into for an operand that has no data here.
pack::Payload nothing(const Operand& operand) {
    pack::Payload none;
    none.address = device::on_device(operand.address) ? nowhere : operand.address;
    none.data = static_cast<std::byte*>(none.address);
    none.contiguous = true;
    return none;
}

pack::Payload receive_payload(const Call& call, const Operand& operand, bool somebody) {
    if (!somebody || !plausible(operand) || operand.count == 0)
        return nothing(operand);
    pack::Payload data = payload(call, operand, CallId::kIrecv);
    if (settings::values().cuda_aware_mpi)
        data.device = false;
    return data;
}

}  // namespace

bool on_device(const Call& call, const Operand& operand) {
    if (!plausible(operand) || settings::values().cuda_aware_mpi)
        return false;
    if (datatype::predefined_size(operand.type) != 0 && operand.address != MPI_BOTTOM)
        return operand.count > 0 && device::on_device(operand.address);
    return staging::touches_device(part_of(call, operand, CallId::kIsend), operand);
}

bool needs_operation(const Call& call, const Operand& operand) {
    if (fastpath::envelopes && plausible(operand) &&
        static_cast<std::size_t>(operand.count) * datatype::size_of(operand.type) >= fastpath::limit)
        return true;
    return on_device(call, operand) || device::on_device(operand.address);
}

bool is_as_long_as_envelope(const Operand& operand) {
    return fastpath::envelopes && plausible(operand) &&
           static_cast<std::size_t>(operand.count) * datatype::size_of(operand.type) == call::kEnvelopeBytes;
}

Started start_send(const Call& call, const Operand& operand, int dest, int tag, Mode mode) {
    pack::Payload data;
    if (plausible(operand) && !settings::values().cuda_aware_mpi)
        data = payload(call, operand, CallId::kIsend);
    if (const int to = data.device ? -1 : receiver_of_synchronous(call, operand, dest, mode); to >= 0)
        return send_synchronous(call, operand, dest, tag, to);
    if (dest == MPI_PROC_NULL || !data.device)
        return send_from_host(call, operand, dest, tag, mode);
    comm::State* state = comm::of(call.owner.comm);
    const int to = receiver_by_envelope(data, state, dest, mode, fastpath::limit);
    if (to >= 0)
        return send_envelope(call, std::move(data), *state, dest, tag, mode, to, nullptr);
    return send_copy(call, data, dest, tag, mode, why_ordinary(data, state, mode));
}

Started start_send_of_copy(const Call& call, const Operand& operand, int dest, int tag) {
    if (dest == MPI_PROC_NULL || !plausible(operand) || operand.count == 0)
        return send_from_host(call, operand, dest, tag, Mode::kStandard);
    pack::Payload data = payload(call, operand, CallId::kIsend);
    comm::State* state = comm::of(call.owner.comm);
    const int to =
        data.device && data.contiguous ? receiver_by_envelope(data, state, dest, Mode::kStandard, fastpath::limit) : -1;
    auto scratch = std::make_shared<device::Scratch>();
    if (to < 0 || device::Scratch::acquire(data.where.context, data.bytes, *scratch) != 0)
        return send_copy(call, data, dest, tag, Mode::kStandard, why_ordinary(data, state, Mode::kStandard));
    pack::Payload copy = data;
    copy.data = static_cast<std::byte*>(scratch->data());
    // The type's data may begin before or behind the operand's address.
    copy.address = reinterpret_cast<void*>(
        reinterpret_cast<std::uintptr_t>(copy.data) -
        (reinterpret_cast<std::uintptr_t>(data.data) - reinterpret_cast<std::uintptr_t>(data.address)));
    if (const std::string failure = staging::complete(staging::copy(copy, data, data.bytes), scratch); !failure.empty())
        return {nullptr,
                error::raise(call, MPI_ERR_OTHER, fmt::format("{}: {}", comm::where(call.id, call.owner), failure))};
    return send_envelope(call, std::move(copy), *state, dest, tag, Mode::kStandard, to, std::move(scratch));
}

Started start_receive(const Call& call, const Operand& operand, int source, int tag) {
    // Looked up now, so that the operation can tell later whether the communicator still exists.
    const comm::State* state = fastpath::envelopes ? comm::of(call.owner.comm) : nullptr;
    auto receive =
        std::make_shared<Receive>(call.id, call.owner.comm, receive_payload(call, operand, source != MPI_PROC_NULL));
    if (state != nullptr && state->spans_jobs)
        receive->comes_from_afar();
    const Into into{operand.count, operand.type};
    const progress::Hold hold;
    int rc = MPI_SUCCESS;
    if (auto taken = fastpath::probed_messages.load(std::memory_order_relaxed) != 0
                         ? claim_probed(call.owner.comm, source, tag)
                         : std::nullopt)
        rc = receive->post(into, std::move(*taken));
    else
        rc = receive->post(into, source, tag);
    return started(std::move(receive), rc);
}

Started start_receive_under_lock(const Call& call, const Operand& operand, int source, int tag) {
    auto receive = std::make_shared<Receive>(call.id, call.owner.comm, receive_payload(call, operand, true));
    const int rc = receive->post({operand.count, operand.type}, source, tag);
    return started(std::move(receive), rc);
}

Started start_receive(const Call& call, const Operand& operand, MPI_Message* message) {
    auto receive = std::make_shared<Receive>(call.id, found_on(*message),
                                             receive_payload(call, operand, *message != MPI_MESSAGE_NO_PROC));
    const Into into{operand.count, operand.type};
    const progress::Hold hold;
    int rc = MPI_SUCCESS;
    if (auto taken = claim(message))
        rc = receive->post(into, std::move(*taken));
    else
        rc = receive->post(into, *message);
    return started(std::move(receive), rc);
}

int publish_status(const progress::Operation& operation, MPI_Status* status) {
    const progress::Outcome& outcome = operation.outcome();
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = outcome.source;
        status->MPI_TAG = outcome.tag;
        real::Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(outcome.bytes));
        real::Status_set_cancelled(status, outcome.cancelled ? 1 : 0);
    }
    if (outcome.mpi_class == MPI_SUCCESS)
        return MPI_SUCCESS;
    return error::raise(Owner(operation.comm()), outcome.mpi_class, outcome.text);
}

}  // namespace swy::p2p
