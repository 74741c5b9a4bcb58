// Events: the last record of each, and for events shared between processes a small shared page.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "vgpu/core/capture.hpp"

namespace vgpu {

// One record of an event: done when the work before it in its stream is.
struct Record {
    Mark mark;
    std::atomic<std::int64_t> time{0};  // nanoseconds, when it completed

    bool done() const { return mark.stream->done(mark.ticket); }
};

// Memory that the processes of an IPC event share. Records are numbered; one is done when `completed` has reached its
// number.
struct SharedRecords {
    std::atomic<std::uint32_t> recorded;
    std::atomic<std::uint32_t> completed;

    bool done(std::uint32_t number) const { return static_cast<std::int32_t>(completed.load() - number) >= 0; }
    void wait(std::uint32_t number);
    void complete(std::uint32_t number);
};

class Event {
  public:
    Event(Context& context, unsigned flags) : context_(context), flags_(flags) {}
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    // Makes the event one that other processes can open; false when the system refuses.
    bool share();
    // Opens one of another process from its file.
    bool open_shared(int file);

    Context& context() const { return context_; }
    unsigned flags() const { return flags_; }
    int shared_file() const { return file_; }

    void record(Context& context, const std::shared_ptr<Stream>& stream, bool hang);
    // The last record, where it was made in a capture; otherwise null.
    void record_captured(std::shared_ptr<const CapturedRecord> record);
    std::shared_ptr<const CapturedRecord> captured() const;
    // True when nothing was recorded or the last record is done.
    bool done() const;
    void wait() const;
    // Makes later work of `stream` wait for the last record as it is now.
    void make_wait(Context& context, const std::shared_ptr<Stream>& stream, bool hang) const;
    std::shared_ptr<Record> last() const;

  private:
    bool map(int file);

    Context& context_;
    const unsigned flags_;
    mutable std::mutex lock_;
    std::shared_ptr<Record> last_;
    std::shared_ptr<const CapturedRecord> captured_;
    int file_ = -1;
    std::shared_ptr<SharedRecords> shared_;  // pending operations keep it after the event is destroyed
};

}  // namespace vgpu
