#include "cli/place.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/commands.hpp"
#include "device/device.hpp"
#include "device/listing.hpp"
#include "topology/devices.hpp"

namespace swy::cli {

namespace fs = std::filesystem;

namespace {

constexpr double kPatience = 60;  // seconds for all ranks of a node to be started
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

void say(const std::string& text) {
    std::fprintf(stderr, "switchyard run: %s\n", text.c_str());
}

// Returns the entries of CUDA_VISIBLE_DEVICES for the devices that are visible now, by ordinal: those that the launcher
// or the user wrote (numbers, UUIDs, MIG slices); numbers where it is not set.
std::vector<std::string> names_of_devices(std::size_t number) {
    std::vector<std::string> names;
    const char* text = std::getenv(kVisible);
    std::istringstream list(text != nullptr ? text : "");
    for (std::string name; std::getline(list, name, ',');)
        names.push_back(name);
    for (std::size_t ordinal = 0; text == nullptr && ordinal < number; ++ordinal)
        names.push_back(std::to_string(ordinal));
    return names;
}

std::vector<std::vector<int>> settle(const std::string& gpus, const topology::NodeFacts& facts) {
    if (gpus == "near")
        return share_out(facts, choose(facts));
    std::vector<std::vector<int>> shares;
    for (const topology::Choice& choice : choose_spread(facts))
        shares.push_back(choice.gpu < 0 ? std::vector<int>() : std::vector<int>{choice.gpu});
    return shares;
}

void set_visible(const topology::RankFacts& rank, const std::vector<int>& share) {
    const std::vector<std::string> names = names_of_devices(rank.visible.size());
    std::string list;
    for (const int gpu : share) {
        const auto ordinal = std::find(rank.visible.begin(), rank.visible.end(), gpu) - rank.visible.begin();
        if (static_cast<std::size_t>(ordinal) >= names.size())
            return say(fmt::format("{}={} does not match the devices that the driver shows; it is left as it is",
                                   kVisible, std::getenv(kVisible)));
        list += (list.empty() ? "" : ",") + names[static_cast<std::size_t>(ordinal)];
    }
    if (!list.empty())
        setenv(kVisible, list.c_str(), 1);
}

std::string variable(const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "";
}

int number(const std::string& text, int otherwise) {
    char* end = nullptr;
    const long value = std::strtol(text.c_str(), &end, 10);
    return end != text.c_str() && value >= 0 && value < 1 << 20 ? static_cast<int>(value) : otherwise;
}

// Slurm's list of tasks by node, as "4(x2),3".
int tasks_on_node(const std::string& list, int node) {
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');) {
        const std::size_t times = part.find("(x");
        node -= times == std::string::npos ? 1 : number(part.substr(times + 2), 1);
        if (node < 0)
            return number(part, 1);
    }
    return 1;
}

// Returns the start time of the launcher's process on this node, by the kernel's clock: its pid alone may be reused.
std::string start_of(pid_t process) {
    std::ifstream file(fmt::format("/proc/{}/stat", process));
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');  // the name may have spaces
    std::istringstream fields(name_end == std::string::npos ? "" : text.substr(name_end + 1));
    std::string field;
    for (int i = 0; i < 20; ++i)
        fields >> field;
    return field;
}

// Names a folder that only this job's ranks on this node share: its name has the pid of the launcher, their parent.
fs::path meeting_place() {
    const std::string job =
        variable("PMIX_NAMESPACE") + " " + variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID");
    const std::string key =
        fmt::format("{}-{}-{:x}", getppid(), start_of(getppid()), std::hash<std::string>()(job) & 0xffffffff);
    std::error_code ignored;
    return fs::temp_directory_path(ignored) / fmt::format("switchyard-{}-{}", getuid(), key);
}

bool own_folder(const fs::path& folder) {
    struct stat status;
    return (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) && lstat(folder.c_str(), &status) == 0 &&
           S_ISDIR(status.st_mode) && status.st_uid == getuid();
}

// Writes the file under another name and renames it, so that a reader never sees a part of it.
bool write_file(const fs::path& path, const std::string& text) {
    const fs::path draft = path.string() + ".draft";
    std::ofstream file(draft, std::ios::binary);
    file << text;
    file.close();
    std::error_code problem;
    fs::rename(draft, path, problem);
    return file.good() && !problem;
}

std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

template <typename Done>
bool wait_until(Done done, double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!done()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

bool all_there(const fs::path& folder, std::string_view prefix, int size) {
    std::error_code ignored;
    for (int rank = size - 1; rank >= 0; --rank)
        if (!fs::exists(folder / fmt::format("{}{}", prefix, rank), ignored))
            return false;
    return true;
}

}  // namespace

void place(const std::string& gpus) {
    const LocalRank self = local_rank();
    // A rank without a driver takes part in the exchange too: the others wait for it.
    if (device::load_driver() == device::DriverState::kUnusable && self.rank == 0)
        say("--gpus=" + gpus + " finds no usable GPU: " + device::driver_problem());
    std::string problem;
    const std::vector<std::string> texts = exchange(self, topology::pack(device::this_process()), kPatience, problem);
    std::vector<topology::Member> members;
    for (const std::string& text : texts)
        members.push_back(topology::unpack(text));
    topology::Machine machine;
    if (problem.empty())
        problem = topology::read_machine("", machine);
    if (!problem.empty())
        return say("--gpus=" + gpus + " has no effect: " + problem);
    const topology::NodeFacts facts = facts_of(members, machine);
    const std::size_t rank = static_cast<std::size_t>(self.rank);
    if (rank < facts.ranks.size() && !facts.ranks[rank].visible.empty())
        set_visible(facts.ranks[rank], settle(gpus, facts)[rank]);
}

int become(std::span<const std::string> program) {
    std::vector<char*> arguments;
    for (const std::string& argument : program)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    std::fflush(nullptr);
    execvp(arguments[0], arguments.data());
    say(program[0] + ": " + std::strerror(errno));
    return errno == ENOENT ? kNotFound : kNotExecutable;
}

int place(std::span<const std::string> arguments) {
    const bool known =
        arguments.size() >= 3 && (arguments[0] == "near" || arguments[0] == "spread") && arguments[1] == "--";
    if (!known) {
        std::fputs("switchyard place: for switchyard run, which gives it near or spread, --, and a program\n", stderr);
        return kUsage;
    }
    place(arguments[0]);
    return become(arguments.subspan(2));
}

bool is_rank() {
    return !variable("PMIX_RANK").empty() || !variable("OMPI_COMM_WORLD_RANK").empty() || !variable("PMI_RANK").empty();
}

LocalRank local_rank() {
    for (const auto& [rank, size] : {std::pair("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
                                     std::pair("MPI_LOCALRANKID", "MPI_LOCALNRANKS")})
        if (!variable(rank).empty() && !variable(size).empty())
            return {number(variable(rank), 0), number(variable(size), 1)};
    if (is_rank() && !variable("SLURM_LOCALID").empty())
        return {number(variable("SLURM_LOCALID"), 0),
                tasks_on_node(variable("SLURM_STEP_TASKS_PER_NODE"), number(variable("SLURM_NODEID"), 0))};
    return {};
}

std::vector<std::string> exchange(const LocalRank& self, const std::string& text, double seconds,
                                  std::string& problem) {
    if (self.size <= 1)
        return {text};
    const fs::path folder = meeting_place();
    if (!own_folder(folder) || !write_file(folder / fmt::format("rank{}", self.rank), text)) {
        problem = fmt::format("{} cannot be written ({}); TMPDIR names another place for temporary files",
                              folder.string(), std::strerror(errno));
        return {};
    }
    if (!wait_until([&] { return all_there(folder, "rank", self.size); }, seconds)) {
        problem =
            fmt::format("not all {} ranks of this node came within {} s to {}", self.size, seconds, folder.string());
        return {};
    }
    std::vector<std::string> texts;
    for (int rank = 0; rank < self.size; ++rank)
        texts.push_back(read_file(folder / fmt::format("rank{}", rank)));
    // The first rank removes the folder when the others have read.
    write_file(folder / fmt::format("read{}", self.rank), "");
    if (self.rank == 0 && wait_until([&] { return all_there(folder, "read", self.size); }, seconds)) {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    }
    return texts;
}

}  // namespace swy::cli
