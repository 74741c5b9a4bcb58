#include "report/processes.hpp"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace swy::report {
namespace {

// The fields after the command's name, which may have any characters: the first is the third of proc(5).
std::istringstream stat_of(int pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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

std::int64_t monotonic_nanoseconds() {
    std::timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace swy::report
