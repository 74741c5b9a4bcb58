#include "cli/node.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/json.hpp"
#include "topology/devices.hpp"

namespace swy::cli {

using topology::Choice;
using topology::GpuFacts;
using topology::Machine;
using topology::PciDevice;

namespace {

std::string size_text(std::uint64_t bytes) {
    return bytes >> 30 != 0 ? fmt::format("{} GiB", (bytes + (1u << 29)) >> 30) : fmt::format("{} MiB", bytes >> 20);
}

template <typename Part>
int only_one_of(const std::vector<Part>& parts, const GpuFacts& place) {
    int found = -1;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!parts[i].cpus.overlaps(place.local))
            continue;
        if (found >= 0)
            return -1;
        found = static_cast<int>(i);
    }
    return found;
}

struct Tree {
    const Machine& machine;
    Part all, unknown;
    std::vector<int> package_of;  // by NUMA node; -1: of several
    std::vector<Part> packages, nodes;

    Part& part_of(const GpuFacts& place) {
        if (place.local.empty())
            return unknown;
        if (const int node = only_one_of(machine.nodes, place); node >= 0 && machine.nodes.size() > 0)
            return nodes[static_cast<std::size_t>(node)];
        if (const int package = only_one_of(machine.packages, place); package >= 0)
            return packages[static_cast<std::size_t>(package)];
        return all;
    }
};

std::string_view name_of(topology::Reach reach) {
    constexpr std::string_view kNames[] = {"local", "cache", "numa", "unknown", "package", "machine"};
    return kNames[static_cast<std::size_t>(reach)];
}

Json device(const Node& node, const PciDevice& device) {
    Json nodes = Json::array();
    for (const int numa : device.place.nodes)
        nodes.push_back(node.machine.nodes[static_cast<std::size_t>(numa)].number);
    return {{"pci", device.pci},
            {"name", or_null(device.name)},
            {"near_pus", or_null(device.place.local.text())},
            {"numa_nodes", std::move(nodes)}};
}

Json rank(const Node& node, std::size_t number) {
    const Choice& choice = node.choices[number];
    const bool has = choice.gpu >= 0;
    const int nic = has ? topology::network_device(node.machine, choice.gpu) : -1;
    Json object;
    object["rank"] = number;
    object["pci"] = has ? node.machine.gpus[static_cast<std::size_t>(choice.gpu)].pci : "unknown";
    object["ordinal"] = has ? Json(choice.ordinal) : Json(nullptr);
    object["why"] = choice.why;
    object["gpu"] = has ? Json(choice.gpu) : Json(nullptr);
    object["bound_to"] = or_null(node.facts.ranks[number].binding.text());
    object["visible"] = node.facts.ranks[number].visible;
    object["distance"] = has && choice.bound ? Json(name_of(choice.reach)) : Json(nullptr);
    object["ranks_on_gpu"] = choice.load;
    object["share"] = node.shares[number];
    object["nic"] = nic >= 0 ? or_null(node.machine.nics[static_cast<std::size_t>(nic)].name) : Json(nullptr);
    return object;
}

}  // namespace

Part drawn(const Machine& machine) {
    Tree tree{machine, {}, {"place not known", {}, {}, {}}, {}, {}, {}};
    tree.all.title = fmt::format("{}{}PUs {}", machine.name, machine.name.empty() ? "" : ", ", machine.cpus.text());
    for (const auto& package : machine.packages)
        tree.packages.push_back(
            {fmt::format("Package {}, {} cores, PUs {}", package.number, package.cores, package.cpus.text()),
             {},
             {},
             {}});
    for (const auto& node : machine.nodes) {
        tree.nodes.push_back(
            {fmt::format("NUMA node {}, {}, PUs {}", node.number, size_text(node.bytes), node.cpus.text()),
             {},
             {},
             {}});
        tree.package_of.push_back(only_one_of(machine.packages, {node.cpus, {}, {}, {}, {}}));
    }
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
        tree.part_of(machine.gpus[gpu].place).gpus.push_back(static_cast<int>(gpu));
    for (std::size_t nic = 0; nic < machine.nics.size(); ++nic)
        tree.part_of(machine.nics[nic].place).nics.push_back(static_cast<int>(nic));
    for (std::size_t node = 0; node < tree.nodes.size(); ++node) {
        const int package = tree.package_of[node];
        (package >= 0 ? tree.packages[static_cast<std::size_t>(package)] : tree.all)
            .parts.push_back(std::move(tree.nodes[node]));
    }
    for (Part& package : tree.packages)
        tree.all.parts.push_back(std::move(package));
    if (!tree.unknown.gpus.empty() || !tree.unknown.nics.empty())
        tree.all.parts.push_back(std::move(tree.unknown));
    return tree.all;
}

std::string gpu_title(const Node& node, int gpu) {
    const PciDevice& device = node.machine.gpus[static_cast<std::size_t>(gpu)];
    return fmt::format("GPU {}  {}{}{}", gpu, device.pci, device.name.empty() ? "" : "  ", device.name);
}

std::string nic_title(const Node& node, int nic) {
    const PciDevice& device = node.machine.nics[static_cast<std::size_t>(nic)];
    return fmt::format("NIC {}{}{}", device.name, device.name.empty() ? "" : "  ", device.pci);
}

bool some_share_is_several(const Node& node) {
    return std::any_of(node.shares.begin(), node.shares.end(), [](const auto& share) { return share.size() > 1; });
}

std::string ranks_on(const Node& node, int gpu) {
    topology::Cpus ranks;  // any set of numbers
    for (std::size_t rank = 0; rank < node.choices.size(); ++rank)
        if (node.choices[rank].gpu == gpu)
            ranks.add(static_cast<unsigned>(rank));
    return ranks.empty() ? "" : (ranks.count() == 1 ? "rank " : "ranks ") + ranks.text();
}

// The manual, switchyard-topo(1), describes this object: the two change together.
std::string node_as_json(const Node& node) {
    const auto& machine = node.machine;
    Json all;
    all["machine"] = {{"from", machine.from}, {"name", or_null(machine.name)}, {"pus", machine.cpus.text()}};
    all["packages"] = Json::array();
    for (const auto& package : machine.packages)
        all["packages"].push_back({{"number", package.number}, {"cores", package.cores}, {"pus", package.cpus.text()}});
    all["numa_nodes"] = Json::array();
    for (const auto& numa : machine.nodes)
        all["numa_nodes"].push_back({{"number", numa.number}, {"bytes", numa.bytes}, {"pus", numa.cpus.text()}});
    all["gpus"] = Json::array();
    for (const PciDevice& gpu : machine.gpus) {
        all["gpus"].push_back(device(node, gpu));
        all["gpus"].back()["uuid"] = or_null(gpu.uuid);
    }
    all["nics"] = Json::array();
    for (const PciDevice& nic : machine.nics)
        all["nics"].push_back(device(node, nic));
    all["ranks"] = Json::array();
    for (std::size_t number = 0; number < node.choices.size(); ++number)
        all["ranks"].push_back(rank(node, number));
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace swy::cli
