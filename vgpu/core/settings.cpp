#include "vgpu/core/settings.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include <unistd.h>

namespace vgpu {
namespace {

bool parse_number(const std::string& text, std::uint64_t& out) {
    if (text.empty() || text[0] < '0' || text[0] > '9')
        return false;
    char* end = nullptr;
    errno = 0;
    out = std::strtoull(text.c_str(), &end, 0);
    return errno == 0 && *end == '\0';
}

bool parse_size(std::string text, std::size_t& out) {
    int shift = 0;
    if (!text.empty() && (text.back() == 'B' || text.back() == 'b') && text.size() > 1)
        text.pop_back();
    if (!text.empty()) {
        switch (text.back()) {
            case 'K':
            case 'k':
                shift = 10;
                break;
            case 'M':
            case 'm':
                shift = 20;
                break;
            case 'G':
            case 'g':
                shift = 30;
                break;
            case 'T':
            case 't':
                shift = 40;
                break;
            default:
                break;
        }
        if (shift != 0)
            text.pop_back();
    }
    std::uint64_t number = 0;
    if (!parse_number(text, number) || number == 0 || number > (std::numeric_limits<std::uint64_t>::max() >> shift))
        return false;
    out = number << shift;
    return out <= (1ull << 44);  // 16 TiB: more would not fit beside other devices in a process's address space
}

// "12.4" to 12040.
bool parse_driver(const std::string& text, int& out) {
    const std::size_t dot = text.find('.');
    std::uint64_t major = 0, minor = 0;
    if (dot == std::string::npos || !parse_number(text.substr(0, dot), major) ||
        !parse_number(text.substr(dot + 1), minor) || major < 11 || major > 13 || minor > 9)
        return false;
    out = static_cast<int>(1000 * major + 10 * minor);
    return out <= kNewestDriver;
}

constexpr Machine kMachines[] = {
#define VGPU_MACHINE_ROW(...) {__VA_ARGS__},
#include "vgpu/core/machines.def"
#undef VGPU_MACHINE_ROW
};

void read_machine(Settings& s, const std::string& name) {
    for (const Machine& machine : kMachines)
        if (machine.name == name)
            s.machine = &machine;
    if (s.machine == nullptr) {
        s.complaints.push_back(
            complaint("VGPU_MACHINE", name, "not a known machine", "write one of " + machine_names()));
        return;
    }
    s.count = s.machine->devices;
    s.multiprocessors = s.machine->multiprocessors;
    s.memory = static_cast<std::size_t>(s.machine->gib) << 30;
    s.major = s.machine->major;
    s.minor = s.machine->minor;
    s.nvlink = s.machine->nvlink;
    s.peers = s.machine->peers;
    s.driver = s.machine->driver;
}

// Lazy loading came with CUDA 11.7, and is what drivers do unasked since 12.2.
bool loads_lazily(const std::string& asked, int driver) {
    if (asked == "EAGER" || asked == "LAZY")
        return asked == "LAZY" && driver >= 11070;
    return driver >= 12020;
}

// Reads a whole number from 1 to `most`.
void read_number(Settings& s, const char* name, int most, const char* example, int& into) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0')
        return;
    std::uint64_t number = 0;
    if (parse_number(value, number) && number >= 1 && number <= static_cast<std::uint64_t>(most))
        into = static_cast<int>(number);
    else
        s.complaints.push_back(complaint(name, value, "not a number from 1 to " + std::to_string(most), example));
}

Settings read() {
    Settings s;
    const auto get = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    if (const std::string name = get("VGPU_MACHINE"); !name.empty())
        read_machine(s, name);
    if (const std::string value = get("VGPU_COUNT"); !value.empty()) {
        std::uint64_t count = 0;
        if (!parse_number(value, count) || count > 64)
            s.complaints.push_back(complaint("VGPU_COUNT", value, "not a number of devices",
                                             "write a number from 0 to 64, e.g. VGPU_COUNT=4"));
        s.count = static_cast<int>(count);
        s.count_given = true;
    }
    if (const std::string value = get("VGPU_MEMORY"); !value.empty() && !parse_size(value, s.memory))
        s.complaints.push_back(complaint("VGPU_MEMORY", value, "not a size of device memory",
                                         "write bytes, or a number with K, M, G or T, e.g. VGPU_MEMORY=4G"));
    if (const std::string value = get("VGPU_JITTER"); !value.empty()) {
        s.jitter = parse_number(value, s.jitter_seed);
        if (!s.jitter)
            s.complaints.push_back(
                complaint("VGPU_JITTER", value, "not a seed", "write a whole number, e.g. VGPU_JITTER=7"));
    }
    read_number(s, "VGPU_SMS", 1024, "write how many multiprocessors a device has, e.g. VGPU_SMS=40",
                s.multiprocessors);
    // A driver does not complain of a value of this one that it cannot use.
    if (std::uint64_t queues = 0; parse_number(get("CUDA_DEVICE_MAX_CONNECTIONS"), queues) && queues >= 1)
        s.queues = static_cast<int>(std::min<std::uint64_t>(queues, 32));
    read_number(s, "VGPU_QUEUES", 32, "write how many hardware queues a device has, e.g. VGPU_QUEUES=1", s.queues);
    if (const std::string value = get("VGPU_DRIVER"); !value.empty() && !parse_driver(value, s.driver))
        s.complaints.push_back(complaint("VGPU_DRIVER", value, "not a CUDA version that a driver can be of",
                                         "write one from 11.0 to 13.0, e.g. VGPU_DRIVER=12.4"));
    s.lazy_loading = loads_lazily(get("CUDA_MODULE_LOADING"), s.driver);
    s.node = get("VGPU_NODE");
    s.topology = get("VGPU_TOPOLOGY");
    if (!s.topology.empty() && access(s.topology.c_str(), R_OK) != 0)
        s.complaints.push_back(complaint("VGPU_TOPOLOGY", s.topology, "no such readable file",
                                         "name an XML file written by `lstopo FILE.xml`"));
    if (const std::string value = get("VGPU_KERNELS"); !value.empty())
        for (const std::string& path : split(value, ':'))
            if (!path.empty())
                s.kernels.push_back(path);
    s.log_prefix = get("VGPU_LOG");
    if (const std::string value = get("VGPU_LOG_CALLS"); !value.empty()) {
        s.log_calls = value == "1";
        if (value != "0" && value != "1")
            s.complaints.push_back(complaint("VGPU_LOG_CALLS", value, "neither 0 nor 1", "write VGPU_LOG_CALLS=1"));
    }
    s.faults = get("VGPU_FAULTS");
    return s;
}

}  // namespace

std::string machine_names() {
    std::string names;
    for (const Machine& machine : kMachines)
        names += (names.empty() ? "" : ", ") + std::string(machine.name);
    return names;
}

const Settings& settings() {
    static const Settings* const kSettings = new Settings(read());  // never destroyed: used while the process ends
    return *kSettings;
}

std::string complaint(const char* variable, const std::string& value, const std::string& problem,
                      const std::string& remedy) {
    return std::string(variable) + "=" + value + ": " + problem + "; " + remedy;
}

void say(const std::string& line) {
    const std::string text = "virtual GPU: " + line + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    while (true) {
        const std::size_t end = text.find(separator, begin);
        parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
        if (end == std::string::npos)
            return parts;
        begin = end + 1;
    }
}

}  // namespace vgpu
