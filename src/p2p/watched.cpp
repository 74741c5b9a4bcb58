#include "p2p/watched.hpp"

#include <utility>

#include "fastpath/message.hpp"
#include "p2p/receive.hpp"
#include "p2p/service.hpp"
#include "progress/engine.hpp"
#include "request/receive_buffers.hpp"

namespace swy::p2p {
namespace {

bool content_is_lost(const request::HostReceive& receive) {
    return receive.buffer != nullptr && request::buffers::content_is_lost(receive.buffer);
}

std::shared_ptr<Receive> operation_of(const request::HostReceive& receive) {
    return std::make_shared<Receive>(receive.call, receive.comm, host_payload(receive));
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

pack::Payload host_payload(const request::HostReceive& receive) {
    if (receive.layout == nullptr)
        return pack::host_payload(receive.address, receive.bytes, datatype::layout_of(MPI_BYTE));
    return pack::host_payload(receive.address, receive.count, receive.layout);
}

std::shared_ptr<progress::Operation> envelope_arrived(request::HostReceive& receive, const MPI_Status& status) {
    if (receive.bytes < call::kEnvelopeBytes) {
        clear_truncated_envelope(receive.layout.get(), receive.address, receive.count, receive.bytes);
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
