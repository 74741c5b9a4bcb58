#include "route/lifecycle.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "carrier/nccl/communicator.hpp"
#include "carrier/nccl/library.hpp"
#include "comm/control.hpp"
#include "comm/establish.hpp"
#include "comm/state.hpp"
#include "device/device.hpp"
#include "error/error.hpp"
#include "real.hpp"
#include "report/report.hpp"
#include "route/depth.hpp"
#include "route/gate.hpp"
#include "route/job.hpp"
#include "settings/settings.hpp"

namespace swy::route {
namespace {

// Every rank decides by the first rank's settings: ranks with different environments must not disagree on routes.
int share_settings(settings::Values& values) {
    std::vector<std::byte> bytes = settings::pack_agreed(values);
    if (const int rc = real::Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
        rc != MPI_SUCCESS)
        return rc;
    const settings::Values mine = values;
    if (!settings::unpack_agreed(bytes, values))
        return error::raise(
            Owner(MPI_COMM_WORLD), MPI_ERR_OTHER,
            "MPI_Init: rank 0 runs another version of Switchyard: give all ranks the same libswitchyard.so");
    if (const std::string difference = settings::differs(mine, values); !difference.empty())
        std::fprintf(stderr, "switchyard: settings that all ranks share are taken from rank 0: %s\n",
                     difference.c_str());
    return MPI_SUCCESS;
}

int learn_whether_job_has_gpus(bool& has) {
    const int mine = device::node_has_driver() ? 1 : 0;
    int any = 0;
    const int rc = real::Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    has = any != 0;
    return rc;
}

std::string mpi_version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    real::Get_library_version(text, &length);
    const std::string all = text;
    return all.substr(0, all.find(','));
}

// As people and nvidia-smi tell devices of one kind apart: by name and PCI address.
std::string device_text(int ordinal) {
    device::Identity id;
    if (ordinal < 0 || !device::identify(ordinal, id))
        return {};
    return fmt::format("{} ({:08x}:{:02x}:{:02x}.0)", device::device_name(ordinal), id.pci_domain, id.pci_bus,
                       id.pci_device);
}

report::Facts facts() {
    report::Facts facts;
    facts.mpi_library = mpi_version();
    const auto counters = carrier::nccl::Communicator::counters();
    // Asking for the version would load the library into a job that never needed it.
    facts.nccl_version = counters.made > 0 ? carrier::nccl::version_text() : "";
    facts.driver = device::driver_text();
    char host[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    real::Get_processor_name(host, &length);
    facts.host = host;
    facts.device = device_text(comm::device_in_use());
    facts.nccl_made = counters.made;
    facts.nccl_reused = counters.reused;
    facts.nccl_evicted = counters.evicted;
    facts.nccl_live_max = counters.live_max;
    return facts;
}

}  // namespace

int after_init() {
    const Inside guard;
    settings::Values values;
    const std::string problems = settings::read(values);
    if (const int rc = share_settings(values); rc != MPI_SUCCESS)
        return rc;
    settings::install(values, true);
    bool gpus = false;
    if (const int rc = learn_whether_job_has_gpus(gpus); rc != MPI_SUCCESS)
        return rc;
    if (!problems.empty())  // after the collective calls: the other ranks must not wait for one that stops here
        return error::raise(Owner(MPI_COMM_WORLD), MPI_ERR_OTHER, "MPI_Init: " + problems);
    if (!values.enabled)
        return MPI_SUCCESS;
    if (const int rc = comm::start(); rc != MPI_SUCCESS)
        return rc;
    if (gpus)
        if (const int rc = comm::start_control(); rc != MPI_SUCCESS)
            return rc;
    job_agrees = gpus;
    threshold = values.nccl_threshold;
    gate::watch();
    report::enabled = values.report != settings::ReportTo::kOff;
    if (gpus || report::enabled)
        gate::open = true;
    return MPI_SUCCESS;
}

void before_finalize() {
    const Inside guard;
    if (!settings::values().enabled)
        return;
    const report::Facts last = report::enabled ? facts() : report::Facts{};
    comm::stop();
    carrier::nccl::Communicator::end_all();
    comm::stop_control();
    device::release_pools();
    if (report::enabled)
        report::write(last);
    report::enabled = false;
    gate::unwatch();
    gate::open = false;
    job_agrees = false;
}

}  // namespace swy::route
