#include "report/processes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace swy::report {
namespace {

// The fields after the command's name, which may have any characters: the first is the third of proc(5).
std::istringstream stat_of(int pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text, '\0');  // a process that ends here makes it fail, where a bare iterator would throw
    const std::size_t end = text.rfind(')');
    return std::istringstream(end == std::string::npos ? "" : text.substr(end + 1));
}

}  // namespace

std::uint64_t process_began(int pid) {
    constexpr int kField = 22, kFirst = 3;
    std::istringstream fields = stat_of(pid);
    std::string skipped;
    for (int field = kFirst; field < kField; ++field)
        fields >> skipped;
    std::uint64_t began = 0;
    fields >> began;
    return fields ? began : 0;
}

bool process_lives(int pid) {
    char state = '\0';
    stat_of(pid) >> state;
    return state != '\0' && state != 'Z' && state != 'X';
}

namespace {

// As a shell reads it back.
std::string shell_word(const std::string& word) {
    constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos)
        return word;
    std::string text = "'";
    for (const char c : word)
        text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

}  // namespace

std::string command_line_of(int pid) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
    std::string line;
    for (std::string word; std::getline(file, word, '\0');)
        line += (line.empty() ? "" : " ") + shell_word(word);
    return line;
}

std::string date_before(double seconds) {
    const auto then = std::chrono::system_clock::now() - std::chrono::duration<double>(seconds);
    const std::time_t time =
        std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::system_clock::duration>(then));
    std::tm local{};
    char text[sizeof "2026-11-21T12:00:00+0000"] = "";
    if (localtime_r(&time, &local) != nullptr)
        std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &local);
    return text;
}

std::int64_t monotonic_nanoseconds() {
    std::timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace swy::report
