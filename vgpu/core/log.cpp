#include "vgpu/core/log.hpp"

#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

#include "vgpu/core/settings.hpp"
#include "vgpu/private.h"

namespace vgpu {
namespace {

// The file is opened on first use, so that processes that never touch a device leave none behind.
int file() {
    static const int kFile = [] {
        const std::string path = settings().log_prefix + "." + std::to_string(getpid());
        const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
        if (fd < 0)
            say(complaint("VGPU_LOG", settings().log_prefix, "cannot create " + path,
                          "name a prefix in a folder that exists and may be written"));
        return fd;
    }();
    return kFile;
}

}  // namespace

bool calls_wanted() {
    static const bool kWanted = log_wanted() && settings().log_calls;
    return kWanted;
}

bool log_wanted() {
    static const bool kWanted = !settings().log_prefix.empty();
    return kWanted;
}

void log(const char* operation, const char* phase, const std::string& fields) {
    if (!log_wanted() || file() < 0)
        return;
    std::string line =
        "{\"t\": " + std::to_string(now()) + ", \"op\": \"" + operation + "\", \"phase\": \"" + phase + "\"";
    if (!fields.empty())
        line += ", " + fields;
    line += "}\n";
    // One write per line on an O_APPEND file: lines of several threads never mix.
    [[maybe_unused]] const ssize_t written = write(file(), line.data(), line.size());
}

void Fields::key(const char* name) {
    if (!text_.empty())
        text_ += ", ";
    text_ += '"';
    text_ += name;
    text_ += "\": ";
}

Fields& Fields::add(const char* name, std::uint64_t value) {
    key(name);
    text_ += std::to_string(value);
    return *this;
}

Fields& Fields::add(const char* name, const char* value) {
    key(name);
    text_ += '"';
    text_ += value;
    text_ += '"';
    return *this;
}

Fields& Fields::address(const char* name, std::uint64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return add(name, text);
}

std::int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

}  // namespace vgpu

extern "C" void vgpu_log(const char* operation, const char* phase, const char* fields) {
    if (vgpu::log_wanted())
        vgpu::log(operation, phase, fields == nullptr ? "" : fields);
}
