// The events of SWITCHYARD_TRACE on this rank: calls, their parts, and work on streams, each with its begin and end, in
// memory of a fixed size. Events are recorded here while `on` is set; trace_file.cpp writes all of them at
// MPI_Finalize. Nothing here calls MPI or CUDA.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "call/reason.hpp"

namespace swy::report::trace {

extern bool on;  // from MPI_Init to MPI_Finalize of a job with SWITCHYARD_TRACE; while false nothing need be recorded

using Time = std::chrono::steady_clock::time_point;

// One end of the arrow from a message's send to its receive. Both ranks name it by what the message's envelope carries:
// the sender's rank in MPI_COMM_WORLD, and the number that the sender has given the message. `number` 0: no arrow.
struct ArrowEnd {
    std::uint64_t number = 0;
    std::uint32_t sender = 0;
    bool sent = false;
};

// What an operation is on. A peer or tag that is not known, or any, is negative, as are those of what is no message.
struct Subject {
    std::string_view communicator;  // as routes.hpp names it; "" for an operation without one
    int peer = -1, tag = -1;
    ArrowEnd arrow = {};
};

// Where an event is drawn. Events of one thread are nested; operations and messages may overlap.
enum class Track : std::uint8_t { kThread, kOperation, kMessage, kStream };

struct Event {
    std::string_view name;  // a constant
    Time begin, end;
    std::uint64_t bytes = 0;
    std::uint64_t where = 0;   // number of the thread or of the operation, or the stream's handle
    std::uint32_t pieces = 0;  // copies that the event stands for, on a stream
    Track track = Track::kThread;
    bool is_call = false;  // an MPI call, which has a transport and a reason
    Carrier carrier = Carrier::kHost;
    Reason reason = Reason::kNone;
    bool unfinished = false;  // its end was not observed
    Subject subject = {};
};

void start(std::size_t most_events);  // sets `on`
void stop();
std::span<const Event> events();  // after stop(), in the order in which they ended
std::size_t dropped();            // events that did not fit in the memory

// Record an event that ends now. Thread-safe, no lock. `name` is a constant.
void end_call(std::string_view name, Carrier carrier, Reason reason, std::size_t bytes, Time begin);
void end_operation(std::string_view name, Carrier carrier, Reason reason, std::size_t bytes, Time begin,
                   std::uint64_t operation, const Subject& subject);
void end_part(std::string_view name, Time begin, std::uint64_t operation);  // of an operation
std::uint64_t draw_operation();

// Holds the begin of an event that the caller records only if it succeeds.
struct Started {
    Started() {
        if (on)
            time = std::chrono::steady_clock::now();
    }
    Time time;
};

// A part of the calling thread's work, from construction to destruction.
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

// The work that has been put on one stream and is not known to be done. An event begins when the work was queued, and
// ends when this process has seen that it is done: the GPU's own clock is not read. Work that is queued while other
// work is under way begins when that is done, since a stream does one thing after the other.
class StreamWork {
  public:
    void copied(std::string_view name, std::size_t bytes, Time begin);    // copies in a row are one event
    void launched(std::string_view name, std::size_t bytes, Time begin);  // by NCCL, or a kernel
    void mark() { marked_ = items_.size(); }                              // what has been queued ends together
    void done(const void* stream);                                        // records what was marked as done
    void lost(const void* stream);  // records the rest as unfinished: it is not queried any more

  private:
    struct Item {
        std::string_view name;
        Time begin;
        std::uint64_t bytes;
        std::uint32_t pieces;
    };
    void add(const Item& item);
    void record(std::size_t count, const void* stream, bool unfinished);
    std::vector<Item> items_;
    std::size_t marked_ = 0;
};

// On which device a stream is, in words, for the name of its track: told while the trace is on, where it is not known
// yet.
bool knows_device(const void* stream);
void tell_device(const void* stream, const std::string& device);
std::string device_of(std::uint64_t stream);  // "" where nobody has told it

}  // namespace swy::report::trace
