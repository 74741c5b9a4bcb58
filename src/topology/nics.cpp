#include "topology/nics.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace swy::topology {

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

bool told_in_environment() {
    return !variable("NCCL_IB_HCA").empty() || !variable("NCCL_NET").empty() || variable("NCCL_IB_DISABLE") == "1";
}

// NCCL's files of variables; what is in the environment would hide them.
bool told_in_files() {
    const std::string named = variable("NCCL_CONF_FILE");
    for (const std::string& file :
         {named.empty() ? variable("HOME") + "/.nccl.conf" : named, std::string("/etc/nccl.conf")}) {
        std::ifstream stream(file);
        for (std::string line; std::getline(stream, line);)
            if (line.starts_with("NCCL_IB_HCA") || line.starts_with("NCCL_NET=") || line.starts_with("NCCL_IB_DISABLE"))
                return true;
    }
    return false;
}

bool may_have_rdma() {
    std::error_code problem;
    return !variable("HWLOC_XMLFILE").empty() || std::filesystem::exists("/sys/class/infiniband", problem);
}

}  // namespace

std::string rdma_devices(const Machine& machine) {
    std::vector<const PciDevice*> usable;
    for (const PciDevice& nic : machine.nics)
        if (nic.verbs && nic.active && !nic.name.empty())
            usable.push_back(&nic);
    const bool each_has_one = std::all_of(machine.gpus.begin(), machine.gpus.end(), [&](const PciDevice& gpu) {
        return std::any_of(usable.begin(), usable.end(),
                           [&](const PciDevice* nic) { return share_host_bridge(gpu, *nic); });
    });
    if (machine.gpus.empty() || !each_has_one)
        return {};
    std::string names;
    std::size_t near = 0;
    for (const PciDevice* nic : usable)
        if (std::any_of(machine.gpus.begin(), machine.gpus.end(),
                        [&](const PciDevice& gpu) { return share_host_bridge(gpu, *nic); })) {
            names += (near++ == 0 ? "=" : ",") + nic->name;
        }
    return near < usable.size() ? names : std::string();
}

std::string rdma_devices_to_tell() {
    if (told_in_environment() || told_in_files() || !may_have_rdma())
        return {};
    Machine machine;
    return read_machine("", machine).empty() ? rdma_devices(machine) : std::string();
}

}  // namespace swy::topology
