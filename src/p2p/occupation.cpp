#include "p2p/occupation.hpp"

#include <mutex>
#include <unordered_map>

namespace swy::p2p {
namespace {

struct Buffer {
    int receives = 0;
    Receive* waiting = nullptr;
};

constinit std::mutex mutex;
std::unordered_map<const void*, Buffer>& buffers() {
    static auto* all = new std::unordered_map<const void*, Buffer>;  // not destroyed at exit
    return *all;
}

}  // namespace

Occupation::~Occupation() {
    if (buffer_ == nullptr)
        return;
    const std::scoped_lock lock(mutex);
    const auto at = buffers().find(buffer_);
    if (waits_)
        at->second.waiting = nullptr;
    if (--at->second.receives == 0)
        buffers().erase(at);
}

void Occupation::enter(const void* buffer) {
    const std::scoped_lock lock(mutex);
    ++buffers()[buffer].receives;
    buffer_ = buffer;
}

bool Occupation::enter_to_wait(const void* buffer, Receive& receive) {
    const std::scoped_lock lock(mutex);
    Buffer& entered = buffers()[buffer];
    buffer_ = buffer;
    if (++entered.receives > 1)
        return false;
    entered.waiting = &receive;
    waits_ = true;
    return true;
}

void Occupation::has_read() {
    if (!waits_)
        return;
    const std::scoped_lock lock(mutex);
    buffers()[buffer_].waiting = nullptr;
    waits_ = false;
}

Receive* Occupation::who_waits() const {
    if (buffer_ == nullptr || waits_)
        return nullptr;
    const std::scoped_lock lock(mutex);
    return buffers()[buffer_].waiting;
}

}  // namespace swy::p2p
