// The VGPU_* variables: read once and checked, with a message for every invalid value. Used by all of libcuda; those of
// libnccl are in vgpu/nccl/settings.hpp. Nothing here uses CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vgpu {

inline constexpr int kNewestDriver = 13000;  // the virtual GPUs have the interface of CUDA 13.0

// A kind of machine, by what the devices of such a one say of themselves.
struct Machine {
    const char* name;
    int devices;
    int major, minor;  // compute capability
    int multiprocessors;
    int gib;      // memory of each device
    bool nvlink;  // between the devices
    bool peers;   // one device reaches another's memory
    int driver;   // as cuDriverGetVersion gives it
    int nccl;     // NCCL's version, as ncclGetVersion's code
};

struct Settings {
    const Machine* machine = nullptr;     // VGPU_MACHINE; a machine with the values below where it is not set
    int count = 1;                        // VGPU_COUNT
    bool count_given = false;             // a topology's number of GPUs holds where VGPU_COUNT is not set
    std::size_t memory = 16ull << 30;     // VGPU_MEMORY, bytes of each device, shared by all processes on it
    int driver = kNewestDriver;           // VGPU_DRIVER, as cuDriverGetVersion gives it
    int multiprocessors = 132;            // VGPU_SMS
    int major = 9, minor = 0;             // compute capability, of VGPU_MACHINE
    bool nvlink = true, peers = true;     // of VGPU_MACHINE
    int queues = 8;                       // VGPU_QUEUES, or CUDA_DEVICE_MAX_CONNECTIONS
    bool lazy_loading = true;             // CUDA_MODULE_LOADING, or the driver's default
    std::string node;                     // VGPU_NODE, distinguishes the devices of simulated nodes on one machine
    std::string topology;                 // VGPU_TOPOLOGY, an hwloc XML file
    std::vector<std::string> kernels;     // VGPU_KERNELS, shared libraries with CPU twins
    std::string log_prefix;               // VGPU_LOG
    bool log_calls = false;               // VGPU_LOG_CALLS
    bool jitter = false;                  // VGPU_JITTER is set
    std::uint64_t jitter_seed = 0;        // VGPU_JITTER
    std::string faults;                   // VGPU_FAULTS, parsed by fault.cpp
    std::vector<std::string> complaints;  // one message per value that cannot be used; empty when all is well
};

// The names of all machines, separated by ", ".
std::string machine_names();

// Reads the environment on the first call; later changes of the environment are not seen, as with CUDA_VISIBLE_DEVICES.
const Settings& settings();

// "variable=value: problem; remedy" in the one form that all VGPU_* complaints have.
std::string complaint(const char* variable, const std::string& value, const std::string& problem,
                      const std::string& remedy);

// Writes a line to standard error, after "virtual GPU: ".
void say(const std::string& line);

std::vector<std::string> split(const std::string& text, char separator);

}  // namespace vgpu
