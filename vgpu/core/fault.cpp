#include "vgpu/core/fault.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu/core/settings.hpp"

namespace vgpu {
namespace {

constexpr int kStopSeconds = 5;

struct Rules {
    std::vector<FaultRule> rules;
    std::vector<std::string> complaints;
};

bool read_count(const std::string& text, std::uint64_t& out) {
    char* end = nullptr;
    if (text.empty() || text[0] < '0' || text[0] > '9')
        return false;
    out = std::strtoull(text.c_str(), &end, 10);
    return *end == '\0' && out > 0;
}

bool read_calls(const std::string& text, FaultRule& rule) {
    if (text.back() == '+')
        return read_count(text.substr(0, text.size() - 1), rule.first);
    if (const std::size_t dash = text.find('-'); dash != std::string::npos)
        return read_count(text.substr(0, dash), rule.first) && read_count(text.substr(dash + 1), rule.last);
    const bool read = read_count(text, rule.first);
    rule.last = rule.first;
    return read;
}

bool read_rule(std::string text, FaultRule& rule) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals + 1 == text.size())
        return false;
    rule.what = text.substr(equals + 1);
    text.resize(equals);
    if (const std::size_t at = text.find('@'); at != std::string::npos) {
        if (at + 1 == text.size() || !read_calls(text.substr(at + 1), rule))
            return false;
        text.resize(at);
    }
    if (!text.empty() && text.back() == ']') {
        const std::size_t open = text.find('[');
        if (open == std::string::npos)
            return false;
        const std::string rank = text.substr(open + 1, text.size() - open - 2);
        char* end = nullptr;
        rule.rank = static_cast<int>(std::strtol(rank.c_str(), &end, 10));
        if (rank.empty() || *end != '\0' || rule.rank < 0)
            return false;
        text.resize(open);
    }
    rule.function = base_name(text);
    return !rule.function.empty();
}

const Rules& rules() {
    static const Rules* const kRules = [] {
        auto* result = new Rules;
        for (const std::string& text : split(settings().faults, ';')) {
            if (text.empty())
                continue;
            FaultRule rule;
            if (read_rule(text, rule))
                result->rules.push_back(std::move(rule));
            else
                result->complaints.push_back(complaint("VGPU_FAULTS", text, "not a fault",
                                                       "write FUNCTION[RANK]@N=ERROR, =hang, =stop or =die, e.g. "
                                                       "cuMemAlloc@5=CUDA_ERROR_OUT_OF_MEMORY"));
        }
        return result;
    }();
    return *kRules;
}

// Stops the whole process, all its threads, as a debugger or a batch system does; a child has it go on.
void stop_for_a_while() {
    const std::string command = "sleep " + std::to_string(kStopSeconds) + "; kill -CONT " + std::to_string(getpid());
    std::string shell = "sh", option = "-c", text = command, path = "PATH=/usr/bin:/bin";
    char* const arguments[] = {shell.data(), option.data(), text.data(), nullptr};
    char* const environment[] = {path.data(), nullptr};  // it is no process of the job
    pid_t child = 0;
    if (posix_spawn(&child, "/bin/sh", nullptr, nullptr, arguments, environment) != 0)
        return;
    kill(getpid(), SIGSTOP);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

// Returns the process's rank in its job, from the launcher's environment variables.
int rank() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
            return std::atoi(value);
    return 0;
}

}  // namespace

std::string_view base_name(std::string_view name) {
    for (const std::string_view suffix : {"_ptsz", "_ptds"})
        if (name.size() > suffix.size() && name.ends_with(suffix))
            name.remove_suffix(suffix.size());
    if (name.size() > 3 && name[name.size() - 3] == '_' && name[name.size() - 2] == 'v')
        name.remove_suffix(3);
    return name;
}

vgpu_fault_kind FaultPoint::pass(const char** error_name) {
    if (rules.empty())
        return kVgpuFaultNone;
    const std::uint64_t call = calls.fetch_add(1) + 1;
    for (const FaultRule* rule : rules) {
        if (call < rule->first || call > rule->last)
            continue;
        if (rule->what == "die") {
            kill(getpid(), SIGKILL);
            pause();
        }
        if (rule->what == "stop") {
            stop_for_a_while();
            continue;
        }
        if (rule->what == "hang")
            return kVgpuFaultHang;
        *error_name = rule->what.c_str();
        return kVgpuFaultError;
    }
    return kVgpuFaultNone;
}

FaultPoint& fault_point(std::string_view function) {
    static auto& lock = *new std::mutex;
    static auto& points = *new std::map<std::string, std::unique_ptr<FaultPoint>, std::less<>>;
    function = base_name(function);
    const std::lock_guard guard(lock);
    auto found = points.find(function);
    if (found == points.end()) {
        auto point = std::make_unique<FaultPoint>();
        point->function = function;
        for (const FaultRule& rule : rules().rules)
            if (rule.function == function && (rule.rank < 0 || rule.rank == rank()))
                point->rules.push_back(&rule);
        found = points.emplace(std::string(function), std::move(point)).first;
    }
    return *found->second;
}

std::vector<std::string> check_faults(bool (*known_function)(std::string_view), bool (*known_error)(std::string_view)) {
    std::vector<std::string> complaints = rules().complaints;
    for (const FaultRule& rule : rules().rules) {
        const std::string text = rule.function + "=" + rule.what;
        const bool runtime = rule.function.starts_with("cuda") || rule.function.starts_with("__cuda");
        if (runtime || rule.function.starts_with("nccl"))
            continue;  // libcudart and libnccl check the names of their own functions
        if (!known_function(rule.function))
            complaints.push_back(complaint("VGPU_FAULTS", text, "no such function of the virtual GPUs",
                                           "name a function of CUDA's driver or runtime API or of NCCL"));
        else if (rule.what != "hang" && rule.what != "stop" && rule.what != "die" && !known_error(rule.what))
            complaints.push_back(complaint("VGPU_FAULTS", text, "no such driver error",
                                           "name a CUresult such as CUDA_ERROR_OUT_OF_MEMORY, hang, stop or die"));
    }
    return complaints;
}

}  // namespace vgpu

extern "C" vgpu_fault_kind vgpu_fault(const char* function, const char** error_name) {
    if (vgpu::settings().faults.empty())
        return kVgpuFaultNone;
    return vgpu::fault_point(function).pass(error_name);
}
