#include "cli/probe.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <set>

#include "cli/launch.hpp"
#include "config.h"
#include "device/device.hpp"
#include "settings/settings.hpp"
#include "topology/machine.hpp"
#include "topology/nics.hpp"

namespace swy::cli {

namespace {

// Libraries stay loaded until the command ends: several of them do not like to be unloaded.
void* load(const std::string& name, std::string& problem) {
    void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* error = dlerror();
        problem = error != nullptr ? error : "cannot be loaded";
    }
    return handle;
}

template <typename Function>
Function* find(void* handle, const char* name) {
    return reinterpret_cast<Function*>(dlsym(handle, name));
}

std::string file_of(void* symbol) {
    Dl_info info;
    return symbol != nullptr && dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Only the virtual GPUs' libraries have this, or need one that has it.
bool is_virtual(void* handle) {
    return dlsym(handle, "vgpu_alias") != nullptr;
}

// Loads libswitchyard, and with it the MPI that a program gets; both report their versions, which needs no MPI_Init.
void probe_library(Findings& findings) {
    LibraryFound& ours = findings.switchyard;
    ours.file = findings.paths.shim.value_or(findings.paths.expected_library).string();
    if (!findings.paths.shim) {
        ours.problem = "is not there";
        findings.mpi.problem = "not asked: it is found through libswitchyard";
        return;
    }
    void* handle = load(ours.file, ours.problem);
    if (handle == nullptr) {
        findings.mpi.problem = "not asked: it is found through libswitchyard, which does not load";
        return;
    }
    int major = 0;
    int minor = 0;
    int patch = 0;
    auto* version = find<int(int*, int*, int*)>(handle, "MPIX_Switchyard_version");
    if (version != nullptr && version(&major, &minor, &patch) == 0)
        ours.version = fmt::format("{}.{}.{}", major, minor, patch);
    else
        ours.problem = "is no libswitchyard (it has no MPIX_Switchyard_version)";
    if (ours.problem.empty() && ours.version != PACKAGE_VERSION)
        ours.problem = "is of another version than this command, " PACKAGE_VERSION;
    // Switchyard does not wrap this function: the name is found in libmpi, which libswitchyard needs.
    auto* describe = find<int(char*, int*)>(handle, "MPI_Get_library_version");
    if (describe == nullptr) {
        findings.mpi.problem = "libswitchyard was loaded without an MPI";
        return;
    }
    std::array<char, 8192> text{};  // more than any MPI_MAX_LIBRARY_VERSION_STRING
    int length = 0;
    describe(text.data(), &length);
    findings.mpi.version = text.data();
    findings.mpi.version.erase(std::min(findings.mpi.version.find_first_of(",\n"), findings.mpi.version.size()));
    findings.mpi.file = file_of(reinterpret_cast<void*>(describe));
}

void probe_mpirun(const std::string& named, MpirunFound& mpirun) {
    mpirun.command = find_mpirun(named);
    std::filesystem::path file;
    if (mpirun.command.empty() || find_program(mpirun.command, file) != Found::kYes)
        return;
    mpirun.file = file.string();
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen((shell_quoted(mpirun.file) + " --version 2>&1").c_str(), "r"), pclose);
    std::array<char, 256> line{};
    if (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
        mpirun.version = line.data();
        mpirun.version.erase(std::min(mpirun.version.find('\n'), mpirun.version.size()));
    }
}

std::vector<Device> devices() {
    std::vector<Device> all;
    for (int ordinal = 0; ordinal < device::device_count(); ++ordinal) {
        Device found{ordinal, device::device_name(ordinal), "", ""};
        device::Identity id;
        if (device::identify(ordinal, id)) {
            found.uuid = "GPU-";
            for (std::size_t i = 0; i < id.uuid.size(); ++i)
                found.uuid += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id.uuid[i]);
            found.pci = fmt::format("{:08x}:{:02x}:{:02x}.0", id.pci_domain, id.pci_bus, id.pci_device);
        }
        all.push_back(std::move(found));
    }
    return all;
}

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE: the driver itself is well

}  // namespace

void probe_driver(DriverFound& driver) {
    const device::DriverState state = device::load_driver();
    bool no_device = false;
    driver.problem = device::driver_problem();
    if (void* handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
        driver.is_virtual = is_virtual(handle);
        if (auto* machines = find<const char*()>(handle, "vgpu_machines"); machines != nullptr)
            driver.machines = machines();
        int version = 0;
        auto* ask = find<int(int*)>(handle, "cuDriverGetVersion");
        driver.file = file_of(reinterpret_cast<void*>(ask));
        if (ask != nullptr && ask(&version) == 0 && version > 0)
            driver.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
        auto* start = find<int(unsigned)>(handle, "cuInit");
        no_device = start != nullptr && start(0) == kNoDevice;
    }
    switch (state) {
        case device::DriverState::kNotLoaded:
            driver.state = "no driver";
            break;
        case device::DriverState::kUnusable:
            driver.state = no_device ? "no device" : "unusable";
            break;
        case device::DriverState::kLoaded:
            driver.devices = devices();
            driver.state = driver.devices.empty() ? "no device" : "usable";
            break;
    }
}

namespace {

void probe_nccl(const std::string& name, LibraryFound& nccl) {
    void* handle = load(name, nccl.problem);
    if (handle == nullptr)
        return;
    int version = 0;
    auto* ask = find<int(int*)>(handle, "ncclGetVersion");
    nccl.file = file_of(reinterpret_cast<void*>(ask));
    nccl.is_virtual = is_virtual(handle);
    if (ask == nullptr || ask(&version) != 0) {
        nccl.problem = name + " is no NCCL (ncclGetVersion is missing or fails)";
        return;
    }
    nccl.version = fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
    if (version < 21800)
        nccl.problem = "is older than 2.18: device memory will be staged through host memory";
}

// Asks one GPU of each compute capability.
std::string refusal_of_kernels(const DriverFound& driver) {
    std::set<int> asked;
    for (const Device& found : driver.devices)
        if (asked.insert(device::compute_capability(found.ordinal)).second)
            if (std::string refusal = device::try_kernels(found.ordinal); !refusal.empty())
                return refusal;
    return "";
}

}  // namespace

Findings probe(const std::string& nccl_library, const std::string& mpirun) {
    Findings findings;
    findings.paths = find_install_paths();
    probe_library(findings);
    probe_mpirun(mpirun, findings.mpirun);
    probe_driver(findings.driver);
    probe_nccl(nccl_library.empty() ? "libnccl.so.2" : nccl_library, findings.nccl);
    findings.kernels = refusal_of_kernels(findings.driver);
    findings.hwloc = topology::hwloc_api_version();
    if (settings::values().nics == settings::Nics::kNear)
        findings.rdma = topology::rdma_devices_to_tell();
    return findings;
}

}  // namespace swy::cli
