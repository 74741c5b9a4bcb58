// What `switchyard info` finds out about this machine. Each library is loaded as a program would load it, and no
// process is started. Other subcommands probe the driver alone.
#pragma once

#include <string>
#include <vector>

#include "cli/install_paths.hpp"

namespace swy::cli {

struct Device {
    int ordinal = 0;
    std::string name, uuid, pci;
};

struct DriverFound {
    std::string state;    // "usable", "no device", "no driver", "unusable"
    std::string problem;  // "" or what is wrong and what to do
    std::string file, version;
    bool is_virtual = false;
    std::string machines;  // those that virtual GPUs can be of, separated by ", "
    std::vector<Device> devices;
};

struct LibraryFound {  // libnccl, libmpi, libswitchyard
    std::string file, version;
    std::string problem;  // "" when it loads
    bool is_virtual = false;
};

struct MpirunFound {
    std::string command;  // as find_mpirun() says
    std::string file, version;
};

struct Findings {
    InstallPaths paths;
    LibraryFound switchyard, mpi, nccl;
    MpirunFound mpirun;
    DriverFound driver;
    std::string kernels;  // why the driver does not take the library's kernels; "" where it does, or there is no GPU
    std::string hwloc;
    std::string rdma;  // the devices that NCCL will be told to use, as NCCL_IB_HCA has them; "" where it chooses itself
};

void probe_driver(DriverFound& driver);
Findings probe(const std::string& nccl_library, const std::string& mpirun = "");  // "": the first that is found

}  // namespace swy::cli
