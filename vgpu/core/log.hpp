// The operation log that VGPU_LOG=PREFIX asks for: one JSON object a line in PREFIX.<pid>.
// Tests count operations with it: host copies, synchronisations, allocations, kernels, NCCL launches.
#pragma once

#include <cstdint>
#include <string>

namespace vgpu {

// True when the log is to have the calls of the driver too, each as phase "call".
bool calls_wanted();

// True when a log is wanted; callers build `fields` only then.
bool log_wanted();

// `fields` is the inside of a JSON object, without braces, or empty.
void log(const char* operation, const char* phase, const std::string& fields = {});

// Builds `fields`: Fields().add("bytes", 8).add("kind", "HtoD").
class Fields {
  public:
    Fields& add(const char* key, std::uint64_t value);
    Fields& add(const char* key, const char* value);
    Fields& address(const char* key, std::uint64_t value);  // as a hexadecimal string
    const std::string& text() const { return text_; }

  private:
    void key(const char* name);
    std::string text_;
};

// Nanoseconds of the monotonic clock, which all processes of a host share.
std::int64_t now();

}  // namespace vgpu
