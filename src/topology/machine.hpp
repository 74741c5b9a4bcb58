// A machine as hwloc describes it, live or from an XML file, in our own terms: what the choice of GPUs needs, and what
// `switchyard topo` draws. The only folder that includes hwloc.h.
#pragma once

#include <string>
#include <vector>

#include "topology/choice.hpp"

namespace swy::topology {

struct PciDevice {
    std::string pci;     // "0000:44:00.0"; "unknown" where hwloc could not read PCI devices
    std::string name;    // as hwloc or the driver has it; may be empty
    std::string uuid;    // of the driver; empty otherwise
    GpuFacts place;      // where it is, for a NIC too
    bool verbs = false;  // a NIC with InfiniBand's interface (RoCE too)
    bool active = true;  // false: a NIC with that interface none of whose ports has a link
};

struct NumaNode {
    unsigned number = 0;  // the system's
    Cpus cpus;
    std::uint64_t bytes = 0;
};

struct Package {
    unsigned number = 0;
    Cpus cpus;
    int cores = 0;
};

struct Machine {
    std::string from;  // the file, or "this machine"
    std::string name;  // host name or model, may be empty
    Cpus cpus;
    std::vector<Package> packages;
    std::vector<NumaNode> nodes;  // those with PUs
    std::vector<PciDevice> gpus;  // NVIDIA's, in PCI order
    std::vector<PciDevice> nics;  // network devices, in PCI order; name is that of the system ("mlx5_0", "eth0")
    bool lists_pci = false;       // false: a topology without I/O devices, which says nothing about GPUs
    std::vector<int> latency;     // as in NodeFacts
    std::vector<std::int64_t> links;
};

bool share_host_bridge(const PciDevice& a, const PciDevice& b);

// `xml` empty: this machine, or what HWLOC_XMLFILE names. Returns "" or what is wrong and what to do.
std::string read_machine(const std::string& xml, Machine& machine);

// Returns the version of hwloc that this process runs with: "2.8.0", that of hwloc's interface, not of its release.
std::string hwloc_api_version();

// Returns the number of cores that this process may use, as Open MPI counts them; 0 where that is not known. Does not
// search for devices, which would take longer.
int count_cores();

// Everything but the ranks.
NodeFacts facts_of(const Machine& machine);

}  // namespace swy::topology
