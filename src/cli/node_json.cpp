#include <nlohmann/json.hpp>

#include "cli/node.hpp"
#include "topology/devices.hpp"

namespace swy::cli {

using topology::Choice;
using topology::PciDevice;
using Json = nlohmann::ordered_json;

namespace {

std::string_view name_of(topology::Reach reach) {
    constexpr std::string_view kNames[] = {"local", "cache", "numa", "unknown", "package", "machine"};
    return kNames[static_cast<std::size_t>(reach)];
}

Json or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
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
