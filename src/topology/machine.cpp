#include "topology/machine.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>

namespace swy::topology {

namespace {

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kVga = 0x0300, k3d = 0x0302;
constexpr unsigned kNetwork = 0x02;  // the class in the upper byte of PCI's class code

struct Destroy {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

template <typename Use>
void each(hwloc_topology_t topology, hwloc_obj_type_t type, Use use) {
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;)
        use(object);
}

// Returns all PUs of those objects of a type that share a PU with `cpus`.
Cpus around(hwloc_topology_t topology, hwloc_obj_type_t type, const Cpus& cpus) {
    Cpus all;
    each(topology, type, [&](hwloc_obj_t object) {
        const Cpus here(object->cpuset);
        if (here.overlaps(cpus))
            all.add(here);
    });
    return all;
}

GpuFacts place_of(hwloc_topology_t topology, const Machine& machine, hwloc_obj_t device) {
    GpuFacts place;
    const hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, device);
    if (parent == nullptr)
        return place;
    place.local = Cpus(parent->cpuset);
    place.cache = around(topology, HWLOC_OBJ_L3CACHE, place.local);
    place.numa = around(topology, HWLOC_OBJ_NUMANODE, place.local);
    place.package = around(topology, HWLOC_OBJ_PACKAGE, place.local);
    for (std::size_t node = 0; node < machine.nodes.size(); ++node)
        if (machine.nodes[node].cpus.overlaps(place.local))
            place.nodes.push_back(static_cast<int>(node));
    return place;
}

std::string address_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

// Returns the path from the host bridge to the device; empty where the topology has no host bridge above it.
std::vector<std::string> path_to(hwloc_obj_t device) {
    std::vector<std::string> path{address_of(device->attr->pcidev)};
    for (hwloc_obj_t above = device->parent; above != nullptr && above->type == HWLOC_OBJ_BRIDGE;
         above = above->parent) {
        const auto& bridge = above->attr->bridge;
        const bool host = bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
        path.push_back(
            host ? fmt::format("{:04x}:{:02x}", bridge.downstream.pci.domain, bridge.downstream.pci.secondary_bus)
                 : address_of(bridge.upstream.pci));
        if (host)
            return {path.rbegin(), path.rend()};
    }
    return {};
}

// Returns whether one of the device's ports has a link ("Port1State" and so on; 4 is active); true where hwloc has no
// port states.
bool has_link(hwloc_obj_t verbs) {
    bool listed = false;
    for (int port = 1; port <= 4; ++port) {
        const char* state = hwloc_obj_get_info_by_name(verbs, fmt::format("Port{}State", port).c_str());
        if (state != nullptr && std::string_view(state).starts_with('4'))
            return true;
        listed = listed || state != nullptr;
    }
    return !listed;
}

// Returns the system's name of a network device: that of the InfiniBand device before that of the network interface,
// since NCCL_IB_HCA takes the former.
std::string network_name(hwloc_obj_t pci, PciDevice& nic) {
    std::string name;
    for (hwloc_obj_t child = pci->io_first_child; child != nullptr; child = child->next_sibling) {
        if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr)
            continue;
        nic.verbs = child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        if (nic.verbs) {
            nic.active = has_link(child);
            return child->name;
        }
        if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
            name = child->name;
    }
    return name;
}

bool is_gpu(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
    return pci.vendor_id == kNvidia && (pci.class_id == kVga || pci.class_id == k3d);
}

void read_devices(hwloc_topology_t topology, Machine& machine) {
    using Found = std::pair<std::tuple<unsigned, unsigned, unsigned, unsigned>, PciDevice>;
    std::vector<Found> gpus;
    std::vector<Found> nics;
    each(topology, HWLOC_OBJ_PCI_DEVICE, [&](hwloc_obj_t object) {
        machine.lists_pci = true;
        const auto& pci = object->attr->pcidev;
        const bool nic = pci.class_id >> 8 == kNetwork;
        if (!nic && !is_gpu(pci))
            return;
        PciDevice device{address_of(pci), "", "", place_of(topology, machine, object), false, true};
        device.place.path = path_to(object);
        const char* model = hwloc_obj_get_info_by_name(object, "PCIDevice");
        device.name = nic ? network_name(object, device) : model != nullptr ? model : "";
        (nic ? nics : gpus).push_back({{pci.domain, pci.bus, pci.dev, pci.func}, std::move(device)});
    });
    for (auto [from, to] : {std::pair(&gpus, &machine.gpus), std::pair(&nics, &machine.nics)}) {
        std::sort(from->begin(), from->end(), [](const Found& a, const Found& b) { return a.first < b.first; });
        for (Found& found : *from)
            to->push_back(std::move(found.second));
    }
}

void read_parts(hwloc_topology_t topology, Machine& machine) {
    const hwloc_obj_t root = hwloc_get_root_obj(topology);
    machine.cpus = Cpus(root->cpuset);
    const char* host = hwloc_obj_get_info_by_name(root, "HostName");
    machine.name = host != nullptr ? host : "";
    each(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t object) {
        if (Cpus cpus(object->cpuset); !cpus.empty())
            machine.nodes.push_back({object->os_index, std::move(cpus), object->attr->numanode.local_memory});
    });
    each(topology, HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t object) {
        const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE);
        if (Cpus cpus(object->cpuset); !cpus.empty())  // empty: not for this job
            machine.packages.push_back({object->os_index, std::move(cpus), cores});
    });
}

struct Release {
    hwloc_topology_t topology;
    void operator()(hwloc_distances_s* distances) const { hwloc_distances_release(topology, distances); }
};
using Distances = std::unique_ptr<hwloc_distances_s, Release>;

void read_latency(hwloc_topology_t topology, Machine& machine) {
    unsigned number = 1;
    hwloc_distances_s* found = nullptr;
    if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &number, &found, HWLOC_DISTANCES_KIND_MEANS_LATENCY,
                                    0) != 0 ||
        number == 0 || found == nullptr)
        return;
    const Distances distances(found, {topology});
    const std::size_t size = machine.nodes.size();
    std::vector<int> at(found->nbobjs, -1);  // which of our nodes
    for (unsigned i = 0; i < found->nbobjs; ++i)
        for (std::size_t node = 0; found->objs[i] != nullptr && node < size; ++node)
            if (machine.nodes[node].number == found->objs[i]->os_index)
                at[i] = static_cast<int>(node);
    machine.latency.assign(size * size, 0);
    for (unsigned i = 0; i < found->nbobjs; ++i)
        for (unsigned j = 0; j < found->nbobjs; ++j)
            if (at[i] >= 0 && at[j] >= 0)
                machine.latency[static_cast<std::size_t>(at[i]) * size + static_cast<std::size_t>(at[j])] =
                    static_cast<int>(std::min<hwloc_uint64_t>(found->values[i * found->nbobjs + j], 1000));
}

// Returns which of our GPUs an object of a matrix of links is: the PCI device, or an OS device of it. -1: none.
int gpu_of(const Machine& machine, hwloc_obj_t object) {
    while (object != nullptr && object->type == HWLOC_OBJ_OS_DEVICE)
        object = object->parent;
    if (object == nullptr || object->type != HWLOC_OBJ_PCI_DEVICE)
        return -1;
    const std::string address = address_of(object->attr->pcidev);
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
        if (machine.gpus[gpu].pci == address)
            return static_cast<int>(gpu);
    return -1;
}

void add_links(const hwloc_distances_s& found, Machine& machine) {
    const std::size_t size = machine.gpus.size();
    machine.links.resize(size * size);
    for (unsigned i = 0; i < found.nbobjs; ++i)
        for (unsigned j = 0; j < found.nbobjs; ++j) {
            const int a = gpu_of(machine, found.objs[i]);
            const int b = gpu_of(machine, found.objs[j]);
            if (a < 0 || b < 0 || a == b)
                continue;
            auto& link = machine.links[static_cast<std::size_t>(a) * size + static_cast<std::size_t>(b)];
            const auto bandwidth = std::min<hwloc_uint64_t>(found.values[i * found.nbobjs + j], 1u << 30);
            link = std::max(link, static_cast<std::int64_t>(bandwidth));
        }
}

void read_links(hwloc_topology_t topology, Machine& machine) {
    unsigned number = 1;
    hwloc_distances_s* found = nullptr;
    if (hwloc_distances_get_by_name(topology, "NVLinkBandwidth", &number, &found, 0) != 0 || number == 0 ||
        found == nullptr)
        return;
    const Distances distances(found, {topology});
    add_links(*found, machine);
    // Where GPUs are joined by switches, the matrix as recorded has only the ways to the switches; made to have the
    // ways through them, it has nothing else.
    if (hwloc_distances_transform(topology, found, HWLOC_DISTANCES_TRANSFORM_TRANSITIVE_CLOSURE, nullptr, 0) == 0)
        add_links(*found, machine);
}

std::string load(const std::string& xml, Topology& topology) {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0)
        return "hwloc does not start (out of memory?)";
    topology.reset(made);
    // By default hwloc leaves out all devices.
    hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    errno = 0;
    if (!xml.empty() && hwloc_topology_set_xml(made, xml.c_str()) != 0)
        return fmt::format("{} cannot be read as an hwloc topology ({}); write one by: lstopo FILE.xml", xml,
                           errno == EINVAL ? "no XML of hwloc's, or of a newer version" : std::strerror(errno));
    if (hwloc_topology_load(made) != 0)
        return fmt::format(
            "{} cannot be loaded as an hwloc topology: is it hwloc's XML, of version 2 or 1? "
            "(write one by: lstopo FILE.xml)",
            xml.empty() ? "this machine" : xml);
    return {};
}

}  // namespace

std::string hwloc_api_version() {
    const unsigned api = hwloc_get_api_version();
    return fmt::format("{}.{}.{}", api >> 16, api >> 8 & 0xff, api & 0xff);
}

int count_cores() {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0)
        return 0;
    const Topology topology(made);
    return hwloc_topology_load(made) == 0 ? std::max(hwloc_get_nbobjs_by_type(made, HWLOC_OBJ_CORE), 0) : 0;
}

std::string read_machine(const std::string& xml, Machine& machine) {
    Topology topology;
    if (std::string problem = load(xml, topology); !problem.empty())
        return problem;
    machine = {};
    const char* variable = std::getenv("HWLOC_XMLFILE");
    machine.from = !xml.empty() ? xml : variable != nullptr && *variable != '\0' ? variable : "this machine";
    read_parts(topology.get(), machine);
    read_devices(topology.get(), machine);
    read_latency(topology.get(), machine);
    read_links(topology.get(), machine);
    return {};
}

bool share_host_bridge(const PciDevice& a, const PciDevice& b) {
    return !a.place.path.empty() && !b.place.path.empty() && a.place.path.front() == b.place.path.front();
}

NodeFacts facts_of(const Machine& machine) {
    NodeFacts facts;
    for (const PciDevice& gpu : machine.gpus)
        facts.gpus.push_back(gpu.place);
    facts.machine = machine.cpus;
    for (const NumaNode& node : machine.nodes)
        facts.nodes.push_back(node.cpus);
    facts.latency = machine.latency;
    facts.links = machine.links;
    return facts;
}

}  // namespace swy::topology
