// The events of SWITCHYARD_TRACE on this rank: calls, their parts, and work on streams, each with its begin and end, in
// memory of a fixed size. Who does something tells it here while `on`; trace_file.cpp writes all at MPI_Finalize.
// Nothing here calls MPI or CUDA.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "route/reason.hpp"

namespace swy::report::trace {

extern bool on;  // from MPI_Init to MPI_Finalize of a job with SWITCHYARD_TRACE; when false nothing is to be told

using Time = std::chrono::steady_clock::time_point;

// Where an event is drawn. What one thread does is nested; operations overlap as they like.
enum class Track : std::uint8_t { kThread, kOperation, kStream };

struct Event {
    std::string_view name;  // a constant
    Time begin, end;
    std::uint64_t bytes = 0;
    std::uint64_t where = 0;   // number of the thread or of the operation, or the stream's handle
    std::uint32_t pieces = 0;  // copies in one, on a stream
    Track track = Track::kThread;
    bool is_call = false;  // of MPI: it has a route
    Carrier carrier = Carrier::kHost;
    Reason reason = Reason::kNone;
    bool unfinished = false;  // given up before its end was seen
};

void start(std::size_t most_events);  // sets `on`
void stop();
std::span<const Event> events();  // after stop(), in the order in which they ended
std::size_t dropped();            // that came when the memory was full

// What ends now. Thread-safe, no lock. `name` is a constant.
void end_call(std::string_view name, Carrier carrier, Reason reason, std::size_t bytes, Time begin);
void end_operation(std::string_view name, Carrier carrier, Reason reason, std::size_t bytes, Time begin,
                   std::uint64_t operation);
void end_part(std::string_view name, Time begin, std::uint64_t operation);  // of an operation
std::uint64_t draw_operation();

// When something began that is told when it has succeeded.
struct Started {
    Started() {
        if (on)
            time = std::chrono::steady_clock::now();
    }
    Time time;
};

// A part of what the calling thread does.
class Part {
  public:
    explicit Part(std::string_view name) : name_(name), traced_(on) {
        if (traced_)
            begin_ = std::chrono::steady_clock::now();
    }
    ~Part() {
        if (traced_)
            end();
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

  private:
    void end() const;
    std::string_view name_;
    bool traced_;
    Time begin_;
};

// What has been put on one stream and is not known to be done. An event of it begins when it was queued, and ends when
// this process has seen that it is done: a GPU's own clock is not asked. What is queued while other work is under way
// begins when that is done, since a stream does one thing after the other.
class StreamWork {
  public:
    void copied(std::string_view name, std::size_t bytes, Time begin);    // copies in a row are one event
    void launched(std::string_view name, std::size_t bytes, Time begin);  // by NCCL, or a kernel
    void mark() { marked_ = items_.size(); }                              // what has been queued ends together
    void done(const void* stream);                                        // what was marked
    void lost(const void* stream);                                        // all that is left: nobody asks any more

  private:
    struct Item {
        std::string_view name;
        Time begin;
        std::uint64_t bytes;
        std::uint32_t pieces;
    };
    void add(const Item& item);
    void tell(std::size_t count, const void* stream, bool unfinished);
    std::vector<Item> items_;
    std::size_t marked_ = 0;
};

}  // namespace swy::report::trace
