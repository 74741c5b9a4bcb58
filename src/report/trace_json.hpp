// The events of one rank as Chrome's trace-event objects, a batch of text at a time. For trace_file.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "report/clock.hpp"
#include "report/trace.hpp"

namespace swy::report::trace {

inline constexpr std::size_t kBatchBytes = std::size_t{256} << 10;

class Batches {
  public:
    Batches(int rank, const std::string& host, std::span<const Event> events, std::size_t dropped, const Clock& clock);

    // Returns objects separated by commas, about kBatchBytes; "" after the last ones.
    std::string next();

  private:
    void name_tracks(const std::string& host);
    void say(const std::string& object);
    void write(const Event& event);
    void write_end(std::size_t dropped);
    int track_of(const Event& event) const;

    const int rank_;
    const std::span<const Event> events_;
    const std::size_t dropped_;
    const Clock& clock_;
    std::vector<std::uint32_t> order_;  // indices of the events in the order in which they are written: by their begin
    std::map<std::uint64_t, int> streams_;  // handle to number
    std::string text_;
    std::size_t next_ = 0;
    bool ended_ = false;
};

}  // namespace swy::report::trace
