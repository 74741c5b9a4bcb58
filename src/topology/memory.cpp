#include "topology/memory.hpp"

#include <hwloc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

#include "topology/devices.hpp"
#include "topology/distance.hpp"

namespace swy::topology {

namespace {

// Returns whether the system has several NUMA nodes ("0-3" in its list), without hwloc, which takes a while on large
// machines; true where HWLOC_XMLFILE describes the machine.
bool has_several_nodes() {
    if (const char* file = std::getenv("HWLOC_XMLFILE"); file != nullptr && *file != '\0')
        return true;
    std::string online;
    std::ifstream("/sys/devices/system/node/online") >> online;
    return std::any_of(online.begin(), online.end(),
                       [](char c) { return std::isdigit(static_cast<unsigned char>(c)) == 0; });
}

// Returns a topology to bind memory with, kept for the life of the process; nullptr where hwloc fails to load one.
hwloc_topology_t binder() {
    static hwloc_topology_t kept = [] {
        hwloc_topology_t made = nullptr;
        if (hwloc_topology_init(&made) != 0)
            return hwloc_topology_t{};
        if (hwloc_topology_load(made) == 0)
            return made;
        hwloc_topology_destroy(made);
        return hwloc_topology_t{};
    }();
    return kept;
}

}  // namespace

std::vector<unsigned> near_nodes(const Machine& machine, const std::string& pci) {
    const auto gpu =
        std::find_if(machine.gpus.begin(), machine.gpus.end(), [&](const PciDevice& g) { return g.pci == pci; });
    if (gpu == machine.gpus.end() || gpu->place.nodes.size() == machine.nodes.size())
        return {};
    std::vector<unsigned> numbers;
    for (const int node : gpu->place.nodes)
        numbers.push_back(machine.nodes[static_cast<std::size_t>(node)].number);
    return numbers;
}

std::vector<unsigned> nodes_near_device(const std::string& pci) {
    static std::mutex mutex;
    static std::map<std::string, std::vector<unsigned>> known;
    const std::scoped_lock lock(mutex);
    if (const auto at = known.find(pci); at != known.end())
        return at->second;
    Machine machine;
    std::vector<unsigned> nodes;
    if (has_several_nodes() && read_machine("", machine).empty())
        nodes = near_nodes(machine, pci);
    return known[pci] = nodes;
}

bool prefer_nodes(void* data, std::size_t bytes, const std::vector<unsigned>& nodes) {
    const hwloc_topology_t topology = nodes.empty() ? nullptr : binder();
    if (topology == nullptr)
        return false;
    hwloc_nodeset_t set = hwloc_bitmap_alloc();
    for (const unsigned node : nodes)
        hwloc_bitmap_set(set, node);
    // Without HWLOC_MEMBIND_STRICT the kernel is given a preference (MPOL_PREFERRED).
    const bool taken =
        hwloc_set_area_membind(topology, data, bytes, set, HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) == 0;
    hwloc_bitmap_free(set);
    return taken;
}

int node_of(const void* address) {
    // Without a list of nodes to move the pages to, move_pages(2) returns where they are.
    void* page = const_cast<void*>(address);
    int node = -1;
    return syscall(SYS_move_pages, 0, 1UL, &page, nullptr, &node, 0) == 0 && node >= 0 ? node : -1;
}

std::size_t nearest_gpu(const Machine& machine, int node, std::span<const std::string> pci) {
    const auto holds = [&](const NumaNode& numa) { return node >= 0 && numa.number == static_cast<unsigned>(node); };
    const auto there = std::find_if(machine.nodes.begin(), machine.nodes.end(), holds);
    if (there == machine.nodes.end())
        return 0;
    NodeFacts facts = facts_of(machine);
    facts.gpus.clear();
    for (const std::string& address : pci) {
        const auto gpu = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                      [&](const PciDevice& g) { return g.pci == address; });
        facts.gpus.push_back(gpu == machine.gpus.end() ? GpuFacts{} : gpu->place);
    }
    const RankFacts cores{there->cpus, {}};
    std::size_t nearest = 0;
    for (std::size_t gpu = 1; gpu < pci.size(); ++gpu)
        if (distance(facts, cores, static_cast<int>(gpu)).value <
            distance(facts, cores, static_cast<int>(nearest)).value)
            nearest = gpu;
    return nearest;
}

std::size_t nearest_gpu_here(const void* address, std::size_t count,
                             const std::function<std::string(std::size_t)>& pci) {
    static const bool several = has_several_nodes();
    if (count < 2 || !several)
        return 0;
    static const Machine* machine = [] {
        auto* read = new Machine;                    // not destroyed at exit
        static_cast<void>(read_machine("", *read));  // where that fails no node is known
        return read;
    }();
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(pci(i));
    return nearest_gpu(*machine, node_of(address), all);
}

}  // namespace swy::topology
