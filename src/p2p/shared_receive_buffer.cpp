#include "p2p/shared_receive_buffer.hpp"

#include <mutex>
#include <unordered_map>

namespace swy::p2p {
namespace {

struct Buffer {
    int receives = 0;
    int waiting = 0;
    Receive* reader = nullptr;  // the receive that waits, when no other one has waited with it
    bool lost = false;          // several receives have waited at once
};

constinit std::mutex mutex;
constinit bool wary = false;
std::unordered_map<const void*, Buffer>& buffers() {
    static auto* all = new std::unordered_map<const void*, Buffer>;  // not destroyed at exit
    return *all;
}

}  // namespace

SharedReceiveBuffer::~SharedReceiveBuffer() {
    if (buffer_ == nullptr)
        return;
    has_read();
    const std::scoped_lock lock(mutex);
    const auto at = buffers().find(buffer_);
    if (--at->second.receives == 0)
        buffers().erase(at);
}

void SharedReceiveBuffer::enter(const void* first_byte) {
    const std::scoped_lock lock(mutex);
    ++buffers()[first_byte].receives;
    buffer_ = first_byte;
}

bool SharedReceiveBuffer::enter_to_wait(const void* first_byte, Receive& receive) {
    const std::scoped_lock lock(mutex);
    Buffer& entered = buffers()[first_byte];
    buffer_ = first_byte;
    if (++entered.receives > 1 && wary)
        return false;
    waits_ = true;
    if (++entered.waiting > 1)
        entered.lost = true;
    entered.reader = entered.lost ? nullptr : &receive;
    return true;
}

bool SharedReceiveBuffer::content_is_lost() const {
    if (!waits_)
        return false;
    const std::scoped_lock lock(mutex);
    return buffers()[buffer_].lost;
}

void SharedReceiveBuffer::has_read() {
    if (!waits_)
        return;
    const std::scoped_lock lock(mutex);
    Buffer& buffer = buffers()[buffer_];
    waits_ = false;
    buffer.reader = nullptr;
    buffer.lost = --buffer.waiting > 0;
}

Receive* SharedReceiveBuffer::who_reads() const {
    if (buffer_ == nullptr || waits_)
        return nullptr;
    const std::scoped_lock lock(mutex);
    return buffers()[buffer_].reader;
}

void SharedReceiveBuffer::beware() {
    const std::scoped_lock lock(mutex);
    wary = true;
}

}  // namespace swy::p2p
