#include "p2p/begin.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "carrier/staged/pipeline.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/world.hpp"
#include "datatype/quick.hpp"
#include "device/scratch.hpp"
#include "error/error.hpp"
#include "p2p/exchange.hpp"
#include "p2p/kept.hpp"
#include "p2p/plain.hpp"
#include "p2p/receive.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/wait.hpp"
#include "settings/settings.hpp"

namespace swy::p2p {
namespace {

// What MPI gets in place of a device address that it will not look at.
alignas(64) std::byte nowhere[64];

// Arguments that MPI refuses are left to MPI, which says what is wrong with them.
bool valid(const Operand& operand) {
    return operand.count >= 0 && operand.type != MPI_DATATYPE_NULL;
}

// One operand as a call of its own: the staged carrier, which is asked where it lies, counts by the whole call.
Call part_of(const Call& call, const Operand& operand, CallId as) {
    Call part{.id = as, .owner = call.owner, .operands = {&operand, 1}};
    part.root = 0;  // a peer there is: MPI_PROC_NULL has been seen to
    return part;
}

Payload payload(const Call& call, const Operand& operand, CallId as) {
    const Call part = part_of(call, operand, as);
    return payload_of(part, operand, call.matching != nullptr ? call.matching->buffers : std::span<const Operand>());
}

// Steps a transfer to its end, with MPI's progress.
std::string complete(Transfer& transfer) {
    while (!transfer.done()) {
        {
            const request::Hold hold;
            transfer.step();
        }
        if (!transfer.done())
            request::progress();
    }
    return transfer.failure();
}

template <typename Op>
Begun begun(std::shared_ptr<Op> operation, int code) {
    if (code != MPI_SUCCESS)
        return {nullptr, code};
    // A message that is there already has arrived when its receive returns: programs expect it of the test that
    // follows.
    if constexpr (std::is_same_v<Op, Receive>)
        request::step_at_once(*operation);
    request::add(operation);
    return {std::move(operation), code};
}

int no_memory(const Call& call, std::size_t bytes) {
    return error::raise(call, MPI_ERR_NO_MEM, fmt::format("{}: no host memory for {} bytes", name(call.id), bytes));
}

// From the program's host memory, or from an address that MPI will not look at.
Begun send_from_host(const Call& call, const Operand& operand, int dest, int tag, Mode mode) {
    const std::size_t bytes =
        valid(operand) ? static_cast<std::size_t>(operand.count) * datatype::size_of(operand.type) : 0;
    auto send = std::make_shared<PlainSend>(call.id, call.owner.comm, bytes);
    const bool foreign_address = !settings::values().cuda_aware_mpi && device::on_device(operand.address);
    const void* address = foreign_address ? nowhere : operand.address;
    const request::Hold hold;
    const int rc = send->post(mode, address, operand.count, operand.type, dest, tag);
    return begun(std::move(send), rc);
}

Reason why_ordinary(const Payload& data, const comm::State* state, Mode mode) {
    if (mode == Mode::kBuffered)
        return Reason::kBuffered;
    if (data.bytes < settings::values().p2p_threshold)
        return Reason::kSmall;
    return state == nullptr ? Reason::kNoMemory : Reason::kForeign;
}

// An ordinary message from a copy in host memory. The copy is complete when this returns, so that later messages do not
// overtake it.
Begun send_copy(const Call& call, const Payload& data, int dest, int tag, Mode mode, Reason reason) {
    auto send = std::make_shared<PlainSend>(call.id, call.owner.comm, data.bytes);
    if (data.device)
        send->ledger().route(Carrier::kStaged, reason);
    bool has_memory = false;
    {
        const request::Hold hold;
        Landing::collect_left();
        has_memory = send->copy().acquire(data.where.context, data.bytes);
    }
    if (!has_memory)
        return {nullptr, no_memory(call, data.bytes)};
    const auto packing = carrier::staged::pack(data, send->copy().data(), send->copy().page_locked());
    if (const std::string failure = complete(*packing); !failure.empty())
        return {nullptr, error::raise(call, MPI_ERR_OTHER, fmt::format("{}: {}", name(call.id), failure))};
    send->copy().touched(data.bytes);
    if (data.device && reason == Reason::kForeign)
        send->limit_time(dest, tag);
    const request::Hold hold;
    const int rc = send->post(mode, send->copy().data(), static_cast<MPI_Count>(data.bytes), MPI_BYTE, dest, tag);
    return begun(std::move(send), rc);
}

// The receiver in MPI_COMM_WORLD where an envelope can be sent to it; -1 otherwise.
int receiver_by_envelope(const Payload& data, comm::State* state, int dest, Mode mode) {
    if (!envelopes || mode == Mode::kBuffered || data.bytes < limit || state == nullptr || state->foreign)
        return -1;
    const request::Hold hold;
    return comm::world_rank(*state, dest);
}

Begun send_envelope(const Call& call, Payload data, comm::State& state, int dest, int tag, Mode mode, int to,
                    std::shared_ptr<void> owner) {
    auto send = std::make_shared<Send>(call.id, call.owner.comm, std::move(data), dest, tag);
    send->keep(std::move(owner));
    const request::Hold hold;
    const int rc = send->post(mode, state, to);
    return begun(std::move(send), rc);
}

// What MPI receives into for an operand that has no data here.
Payload nothing(const Operand& operand) {
    Payload none;
    none.address = device::on_device(operand.address) ? nowhere : operand.address;
    none.data = static_cast<std::byte*>(none.address);
    none.contiguous = true;
    return none;
}

Payload receive_payload(const Call& call, const Operand& operand, bool somebody) {
    if (!somebody || !valid(operand) || operand.count == 0)
        return nothing(operand);
    Payload data = payload(call, operand, CallId::kIrecv);
    if (settings::values().cuda_aware_mpi)
        data.device = false;
    return data;
}

}  // namespace

bool on_device(const Call& call, const Operand& operand) {
    if (!valid(operand) || settings::values().cuda_aware_mpi)
        return false;
    if (datatype::predefined_size(operand.type) != 0 && operand.address != MPI_BOTTOM)
        return operand.count > 0 && device::on_device(operand.address);
    return carrier::staged::touches_device(part_of(call, operand, CallId::kIsend), operand);
}

bool needs_operation(const Call& call, const Operand& operand) {
    if (envelopes && valid(operand) &&
        static_cast<std::size_t>(operand.count) * datatype::size_of(operand.type) >= limit)
        return true;
    return on_device(call, operand) || device::on_device(operand.address);
}

Begun begin_send(const Call& call, const Operand& operand, int dest, int tag, Mode mode) {
    if (dest == MPI_PROC_NULL || !on_device(call, operand))
        return send_from_host(call, operand, dest, tag, mode);
    Payload data = payload(call, operand, CallId::kIsend);
    comm::State* state = comm::of(call.owner.comm);
    const int to = receiver_by_envelope(data, state, dest, mode);
    if (to >= 0)
        return send_envelope(call, std::move(data), *state, dest, tag, mode, to, nullptr);
    return send_copy(call, data, dest, tag, mode, why_ordinary(data, state, mode));
}

Begun begin_send_of_copy(const Call& call, const Operand& operand, int dest, int tag) {
    if (dest == MPI_PROC_NULL || !valid(operand) || operand.count == 0)
        return send_from_host(call, operand, dest, tag, Mode::kStandard);
    Payload data = payload(call, operand, CallId::kIsend);
    comm::State* state = comm::of(call.owner.comm);
    const int to = data.device && data.contiguous ? receiver_by_envelope(data, state, dest, Mode::kStandard) : -1;
    auto scratch = std::make_shared<device::Scratch>();
    if (to < 0 || device::Scratch::acquire(data.where.context, data.bytes, *scratch) != 0)
        return send_copy(call, data, dest, tag, Mode::kStandard, why_ordinary(data, state, Mode::kStandard));
    Payload copy = data;
    copy.data = static_cast<std::byte*>(scratch->data());
    // The type's data may begin before or behind the address that goes with it.
    copy.address = reinterpret_cast<void*>(
        reinterpret_cast<std::uintptr_t>(copy.data) -
        (reinterpret_cast<std::uintptr_t>(data.data) - reinterpret_cast<std::uintptr_t>(data.address)));
    const auto copying = carrier::staged::copy(copy, data, data.bytes);
    if (const std::string failure = complete(*copying); !failure.empty())
        return {nullptr, error::raise(call, MPI_ERR_OTHER, fmt::format("{}: {}", name(call.id), failure))};
    return send_envelope(call, std::move(copy), *state, dest, tag, Mode::kStandard, to, std::move(scratch));
}

Begun begin_receive(const Call& call, const Operand& operand, int source, int tag) {
    // Asked for now, so that the operation can tell later whether the communicator still is.
    const comm::State* state = envelopes ? comm::of(call.owner.comm) : nullptr;
    auto receive =
        std::make_shared<Receive>(call.id, call.owner.comm, receive_payload(call, operand, source != MPI_PROC_NULL));
    if (state != nullptr && state->foreign)
        receive->comes_from_afar();
    const Into into{operand.count, operand.type};
    const request::Hold hold;
    int rc = MPI_SUCCESS;
    if (auto taken = kept.load(std::memory_order_relaxed) != 0 ? take_kept(call.owner.comm, source, tag) : std::nullopt)
        rc = receive->post(into, std::move(*taken));
    else
        rc = receive->post(into, source, tag);
    return begun(std::move(receive), rc);
}

Begun begin_receive(const Call& call, const Operand& operand, MPI_Message* message) {
    auto receive = std::make_shared<Receive>(call.id, found_on(*message),
                                             receive_payload(call, operand, *message != MPI_MESSAGE_NO_PROC));
    const Into into{operand.count, operand.type};
    const request::Hold hold;
    int rc = MPI_SUCCESS;
    if (auto taken = claim(message))
        rc = receive->post(into, std::move(*taken));
    else
        rc = receive->post(into, *message);
    return begun(std::move(receive), rc);
}

int settle(const request::Operation& operation, MPI_Status* status) {
    const request::Outcome& outcome = operation.outcome();
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
