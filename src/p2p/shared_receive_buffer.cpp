#include "p2p/shared_receive_buffer.hpp"

#include <utility>

#include "p2p/receive.hpp"
#include "request/receive_buffers.hpp"

namespace swy::p2p {

namespace buffers = request::buffers;

SharedReceiveBuffer::~SharedReceiveBuffer() {
    if (buffer_ != nullptr)
        buffers::leave(buffer_, waits_);
}

void SharedReceiveBuffer::enter(const void* first_byte) {
    buffers::enter(first_byte);
    buffer_ = first_byte;
}

bool SharedReceiveBuffer::enter_to_wait(const void* first_byte, Receive& receive) {
    buffer_ = first_byte;
    waits_ = buffers::enter_to_wait(first_byte, &receive);
    return waits_;
}

bool SharedReceiveBuffer::content_is_lost() const {
    return waits_ && buffers::content_is_lost(buffer_);
}

void SharedReceiveBuffer::has_read() {
    if (std::exchange(waits_, false))
        buffers::has_read(buffer_);
}

Receive* SharedReceiveBuffer::who_reads() const {
    return buffer_ == nullptr || waits_ ? nullptr : static_cast<Receive*>(buffers::who_reads(buffer_));
}

}  // namespace swy::p2p
