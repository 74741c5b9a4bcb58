#include "request/receive_buffers.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "call/hash.hpp"
#include "request/handle.hpp"

namespace swy::request::buffers {
namespace {

struct Buffer {
    const void* first_byte = nullptr;  // null for an empty entry
    int receives = 0;
    int waiting = 0;
    progress::Operation* reader = nullptr;  // the operation that waits, when no other receive has waited with it
    bool lost = false;                      // several receives have used the buffer at once

    // Called when a receive comes that writes into the buffer, or may. A receive of MPI's own that waits there cannot
    // be asked to read it first.
    void is_shared() { lost = lost || (waiting > 0 && reader == nullptr); }
};

// Open addressing; at most half full.
class Buffers {
  public:
    // The entry of a buffer, which is made where there is none. Valid until the next call.
    Buffer& get(const void* first_byte) {
        std::size_t at = place_of(first_byte);
        if (table_[at].first_byte != nullptr)
            return table_[at];
        if (2 * ++used_ > table_.size()) {
            grow();
            at = place_of(first_byte);
        }
        table_[at].first_byte = first_byte;
        return table_[at];
    }

    // Entries behind the one that goes move up, so that every search still ends at an empty entry. An entry stays where
    // its search begins behind the hole.
    void erase(Buffer& gone) {
        auto hole = static_cast<std::size_t>(&gone - table_.data());
        --used_;
        for (std::size_t at = after(hole); table_[at].first_byte != nullptr; at = after(at))
            if (distance(first(table_[at].first_byte), at) >= distance(hole, at)) {
                table_[hole] = table_[at];
                hole = at;
            }
        table_[hole] = {};
    }

  private:
    std::size_t first(const void* first_byte) const {
        const auto address = reinterpret_cast<std::uintptr_t>(first_byte);
        return address * call::kGoldenRatio >> (64 - std::countr_zero(table_.size()));
    }
    std::size_t after(std::size_t place) const { return (place + 1) & (table_.size() - 1); }
    std::size_t distance(std::size_t from, std::size_t to) const { return (to - from) & (table_.size() - 1); }
    std::size_t place_of(const void* first_byte) const {
        std::size_t at = first(first_byte);
        while (table_[at].first_byte != nullptr && table_[at].first_byte != first_byte)
            at = after(at);
        return at;
    }
    void grow() {
        std::vector<Buffer> old(2 * table_.size());
        old.swap(table_);
        for (const Buffer& buffer : old)
            if (buffer.first_byte != nullptr)
                table_[place_of(buffer.first_byte)] = buffer;
    }

    std::vector<Buffer> table_ = std::vector<Buffer>(256);
    std::size_t used_ = 0;
};

Buffers& buffers() {
    static auto* all = new Buffers;  // not destroyed at exit
    return *all;
}

constinit bool wary = false;
constinit std::mutex mutex;

// Any thread may end the life of an operation, so several threads need the lock.
std::unique_lock<std::mutex> guard() {
    return one_thread ? std::unique_lock(mutex, std::defer_lock) : std::unique_lock(mutex);
}

void end_wait(Buffer& buffer) {
    buffer.reader = nullptr;
    buffer.lost = --buffer.waiting > 0;
}

}  // namespace

void enter(const void* first_byte) {
    const auto lock = guard();
    Buffer& buffer = buffers().get(first_byte);
    ++buffer.receives;
    buffer.is_shared();
}

bool enter_to_wait(const void* first_byte, progress::Operation* reader) {
    const auto lock = guard();
    Buffer& buffer = buffers().get(first_byte);
    const bool shared = ++buffer.receives > 1;
    buffer.is_shared();
    if (shared && wary)
        return false;
    if (++buffer.waiting > 1 || (shared && reader == nullptr))
        buffer.lost = true;
    buffer.reader = buffer.lost ? nullptr : reader;
    return true;
}

void leave(const void* first_byte, bool waits) {
    const auto lock = guard();
    Buffer& buffer = buffers().get(first_byte);
    if (waits)
        end_wait(buffer);
    if (--buffer.receives == 0)
        buffers().erase(buffer);
}

bool content_is_lost(const void* first_byte) {
    const auto lock = guard();
    return buffers().get(first_byte).lost;
}

void has_read(const void* first_byte) {
    const auto lock = guard();
    end_wait(buffers().get(first_byte));
}

progress::Operation* who_reads(const void* first_byte) {
    const auto lock = guard();
    return buffers().get(first_byte).reader;
}

void beware() {
    const auto lock = guard();
    wary = true;
}

}  // namespace swy::request::buffers
