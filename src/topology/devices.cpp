#include "topology/devices.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace swy::topology {

namespace {

int listed(const std::vector<PciDevice>& gpus, const std::string& pci) {
    const auto at = std::find_if(gpus.begin(), gpus.end(), [&](const PciDevice& gpu) { return gpu.pci == pci; });
    return at == gpus.end() ? -1 : static_cast<int>(at - gpus.begin());
}

enum class Near { kBridge, kNode, kPackage, kNot };

Near nearness(const PciDevice& gpu, const PciDevice& nic) {
    if (share_host_bridge(gpu, nic))
        return Near::kBridge;
    if (gpu.place.numa.overlaps(nic.place.numa))
        return Near::kNode;
    return gpu.place.package.overlaps(nic.place.package) ? Near::kPackage : Near::kNot;
}

std::vector<int> nearest(const std::vector<PciDevice>& nics, const PciDevice& gpu) {
    Near best = Near::kNot;
    for (const PciDevice& nic : nics)
        best = std::min(best, nearness(gpu, nic));
    std::vector<int> found;
    for (std::size_t nic = 0; best != Near::kNot && nic < nics.size(); ++nic)
        if (nearness(gpu, nics[nic]) == best)
            found.push_back(static_cast<int>(nic));
    return found;
}

bool same(const Device& a, const Device& b) {
    return a.uuid == b.uuid && a.pci == b.pci;
}

}  // namespace

std::vector<int> take_devices(std::span<const Device> devices, Machine& machine) {
    std::vector<std::size_t> order(devices.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Addresses are of fixed width: as texts they sort as the numbers do.
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return devices[a].pci < devices[b].pci; });
    const Machine before = machine;
    const std::size_t size = before.gpus.size();
    std::vector<int> was;
    std::vector<int> gpu_of(devices.size());
    machine.gpus.clear();
    for (const std::size_t ordinal : order) {
        gpu_of[ordinal] = static_cast<int>(machine.gpus.size());
        const Device& device = devices[ordinal];
        was.push_back(listed(before.gpus, device.pci));
        PciDevice gpu = was.back() >= 0 ? before.gpus[static_cast<std::size_t>(was.back())] : PciDevice{};
        gpu.pci = device.pci;
        gpu.uuid = device.uuid;
        gpu.name = device.name;
        machine.gpus.push_back(std::move(gpu));
    }
    machine.links.assign(before.links.empty() ? 0 : was.size() * was.size(), 0);
    for (std::size_t a = 0; a < was.size() && !before.links.empty(); ++a)
        for (std::size_t b = 0; b < was.size(); ++b)
            if (was[a] >= 0 && was[b] >= 0)
                machine.links[a * was.size() + b] =
                    before.links[static_cast<std::size_t>(was[a]) * size + static_cast<std::size_t>(was[b])];
    return gpu_of;
}

int network_device(const Machine& machine, int gpu) {
    std::vector<PciDevice> nics;
    std::vector<int> index;
    // If the machine has InfiniBand or the like, the other network devices are for other purposes and are left out.
    const bool verbs = std::any_of(machine.nics.begin(), machine.nics.end(), [](const auto& nic) { return nic.verbs; });
    for (std::size_t nic = 0; nic < machine.nics.size(); ++nic)
        if (machine.nics[nic].verbs == verbs) {
            nics.push_back(machine.nics[nic]);
            index.push_back(static_cast<int>(nic));
        }
    const std::vector<int> candidates = nearest(nics, machine.gpus[static_cast<std::size_t>(gpu)]);
    if (candidates.empty())
        return -1;
    // The GPU's index among those with the same candidates.
    std::size_t turn = 0;
    for (int other = 0; other < gpu; ++other)
        if (nearest(nics, machine.gpus[static_cast<std::size_t>(other)]) == candidates)
            ++turn;
    return index[static_cast<std::size_t>(candidates[turn % candidates.size()])];
}

std::string pack(const Member& member) {
    std::string text = member.binding.text() + "\n";
    for (const Device& device : member.devices)
        text += device.pci + "\t" + device.uuid + "\t" + device.name + "\n";
    return text;
}

Member unpack(const std::string& text) {
    Member member;
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    Cpus::parse(line, member.binding);
    while (std::getline(lines, line)) {
        std::istringstream fields(line);
        Device device;
        std::getline(fields, device.pci, '\t');
        std::getline(fields, device.uuid, '\t');
        std::getline(fields, device.name, '\t');
        member.devices.push_back(std::move(device));
    }
    return member;
}

NodeFacts facts_of(std::span<const Member> members, Machine& machine) {
    std::vector<Device> all;
    for (const Member& member : members)
        for (const Device& device : member.devices)
            if (std::none_of(all.begin(), all.end(), [&](const Device& known) { return same(known, device); }))
                all.push_back(device);
    // The order in which slices of one GPU are met must not depend on who is asked first.
    std::sort(all.begin(), all.end(), [](const Device& a, const Device& b) { return a.uuid < b.uuid; });
    const std::vector<int> gpu_of = take_devices(all, machine);
    NodeFacts facts = facts_of(machine);
    for (const Member& member : members) {
        RankFacts rank{member.binding, {}};
        for (const Device& device : member.devices) {
            const auto known = std::find_if(all.begin(), all.end(), [&](const Device& d) { return same(d, device); });
            rank.visible.push_back(gpu_of[static_cast<std::size_t>(known - all.begin())]);
        }
        facts.ranks.push_back(std::move(rank));
    }
    return facts;
}

}  // namespace swy::topology
