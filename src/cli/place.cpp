#include "cli/place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "cli/commands.hpp"
#include "cli/rank.hpp"
#include "device/device.hpp"
#include "device/listing.hpp"
#include "topology/members.hpp"

namespace swy::cli {

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

}  // namespace swy::cli
