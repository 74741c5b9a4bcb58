#include "topology/members.hpp"

#include <algorithm>
#include <sstream>

namespace swy::topology {

namespace {

bool same(const Device& a, const Device& b) {
    return a.uuid == b.uuid && a.pci == b.pci;
}

}  // namespace

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
