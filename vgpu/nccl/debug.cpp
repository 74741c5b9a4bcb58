#include "vgpu/nccl/debug.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vgpu::nccl {
namespace {

enum Level { kUnread = -1, kSilent, kVersion, kWarn, kInfo, kTrace };

std::atomic<int> g_level{kUnread};
thread_local int t_device = -1;

std::mutex g_last_lock;
char g_last[1024];
thread_local char t_last[1024];

int read_level() {
    const char* text = std::getenv("NCCL_DEBUG");
    if (text == nullptr)
        return kSilent;
    constexpr const char* kNames[] = {"", "VERSION", "WARN", "INFO", "TRACE"};
    for (int level = kVersion; level <= kTrace; ++level)
        if (strcasecmp(text, kNames[level]) == 0)
            return level;
    return kSilent;
}

int level() {
    if (g_level == kUnread)
        g_level = read_level();
    return g_level;
}

void print(const char* level, const char* text) {
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    char device[16] = "-1";
    if (t_device >= 0)
        std::snprintf(device, sizeof device, "%d", t_device);
    std::printf("%s:%d:%ld [%s] NCCL %s %s\n", host, static_cast<int>(getpid()), syscall(SYS_gettid), device, level,
                text);
    std::fflush(stdout);
}

}  // namespace

void warn(const char* format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    {
        const std::lock_guard guard(g_last_lock);
        std::memcpy(g_last, text, sizeof text);
    }
    if (level() >= kWarn)
        print("WARN", text);
}

void info(const char* format, ...) {
    if (level() < kInfo)
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print("INFO", text);
}

const char* last_error() {
    const std::lock_guard guard(g_last_lock);
    std::memcpy(t_last, g_last, sizeof g_last);
    return t_last;
}

void reload_debug_level() {
    g_level = kUnread;
}
void set_debug_device(int device) {
    t_device = device;
}

void report(const std::string& line) {
    const std::string text = "virtual NCCL: " + line + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace vgpu::nccl
