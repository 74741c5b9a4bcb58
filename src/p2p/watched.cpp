#include "p2p/watched.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "comm/launch_order.hpp"
#include "comm/state.hpp"
#include "comm/world.hpp"
#include "datatype/prefix.hpp"
#include "fastpath/message.hpp"
#include "p2p/control.hpp"
#include "p2p/receive.hpp"
#include "p2p/service.hpp"
#include "progress/engine.hpp"
#include "report/routes.hpp"
#include "request/handle.hpp"
#include "request/message_layer.hpp"
#include "request/receive_buffers.hpp"

namespace swy::p2p {
namespace {

constexpr std::size_t kBeforeFields = call::kNamingBytes + sizeof(call::Secret);

void clear_beginning(const datatype::Layout* layout, void* address, std::size_t count) {
    if (layout == nullptr)
        std::memset(address, 0, kBeforeFields);
    else
        datatype::clear_first_bytes(*layout, address, count, kBeforeFields);
}

bool content_is_lost(const request::HostReceive& receive) {
    return receive.buffer != nullptr && request::buffers::content_is_lost(receive.buffer);
}

std::shared_ptr<Receive> operation_of(const request::HostReceive& receive) {
    const bool named = (report::wants_routes() || report::trace::on) && comm::lives(receive.comm);
    return std::make_shared<Receive>(receive.call, receive.comm, host_payload(receive),
                                     named ? Owner(receive.comm) : Owner());
}

void leave_buffer(request::HostReceive& receive) {
    if (const void* const buffer = std::exchange(receive.buffer, nullptr))
        request::buffers::leave(buffer, true);
}

// The message is an ordinary one where MPI's memory holds no envelope.
std::shared_ptr<Receive> with_envelope(request::HostReceive& receive, const MPI_Status& status) {
    const auto envelope = take_envelope(receive.layout.get(), receive.address, receive.count);
    if (!envelope)
        return nullptr;
    auto operation = operation_of(receive);
    leave_buffer(receive);
    operation->adopt(*envelope, status);
    return operation;
}

// Another receive has used the buffer: only the sender knows what the message was.
std::shared_ptr<Receive> by_asking(request::HostReceive& receive, const MPI_Status& status) {
    auto operation = operation_of(receive);
    leave_buffer(receive);
    request::answer_all_watched();
    operation->adopt_unseen(status);
    return operation;
}

}  // namespace

std::optional<call::Envelope> envelope_in(const datatype::Layout* layout, const void* address, std::size_t count) {
    call::EnvelopeBytes bytes;
    if (layout == nullptr)
        std::memcpy(bytes.data(), address, bytes.size());
    else if (datatype::first_bytes(*layout, address, count, bytes) != bytes.size())
        return std::nullopt;
    return call::read(bytes, secret());
}

std::optional<call::Envelope> take_envelope(const datatype::Layout* layout, void* address, std::size_t count) {
    const std::optional<call::Envelope> envelope = envelope_in(layout, address, count);
    if (envelope)
        clear_beginning(layout, address, count);
    return envelope;
}

bool clear_truncated_envelope(const datatype::Layout* layout, void* address, std::size_t count, std::size_t bytes) {
    std::array<std::byte, kBeforeFields> beginning;
    if (bytes < beginning.size())
        return true;
    if (layout == nullptr)
        std::memcpy(beginning.data(), address, beginning.size());
    else
        datatype::first_bytes(*layout, address, count, beginning);
    const bool shown = std::memcmp(beginning.data() + call::kNamingBytes, &secret(), sizeof(call::Secret)) == 0;
    if (shown)
        clear_beginning(layout, address, count);
    return shown || request::message_layer() != "ob1";  // UCX writes nothing of a message that is too long
}

void release_sender(MPI_Comm comm, int source, int tag) {
    comm::State* state = comm::of(comm);
    const int sender = state != nullptr ? comm::world_rank(*state, source) : -1;
    if (sender < 0)
        return;
    progress::poll_all();  // lets receives that have had earlier messages of that tag name them first
    request::answer_all_watched();
    send_control(sender, {.type = MessageType::kRelease, .key = {comm::number_of(*state), source, state->rank, tag}});
}

pack::Payload host_payload(const request::HostReceive& receive) {
    if (receive.layout == nullptr)
        return pack::host_payload(receive.address, receive.bytes, datatype::layout_of(MPI_BYTE));
    return pack::host_payload(receive.address, receive.count, receive.layout);
}

std::shared_ptr<progress::Operation> envelope_arrived(request::HostReceive& receive, const MPI_Status& status) {
    if (receive.bytes < call::kEnvelopeBytes) {
        const bool lost = content_is_lost(receive);
        if (clear_truncated_envelope(receive.layout.get(), receive.address, receive.count, receive.bytes) || lost)
            release_sender(receive.comm, status.MPI_SOURCE, status.MPI_TAG);
        return nullptr;  // MPI itself reports that the message was too long
    }
    auto operation = content_is_lost(receive) ? by_asking(receive, status) : with_envelope(receive, status);
    if (operation != nullptr)
        progress::add(operation);
    return operation;
}

bool shows_envelope(const request::HostReceive& receive) {
    if (content_is_lost(receive))
        return false;
    if (receive.layout == nullptr)
        return fastpath::may_be_envelope(MPI_SUCCESS, receive.address);
    return envelope_in(receive.layout.get(), receive.address, receive.count).has_value();
}

std::shared_ptr<progress::Operation> go_on(request::HostReceive& receive, MPI_Request request) {
    auto operation = operation_of(receive);
    const bool lost = content_is_lost(receive);
    leave_buffer(receive);
    operation->take_over(request, lost);
    progress::add(operation);
    return operation;
}

}  // namespace swy::p2p
