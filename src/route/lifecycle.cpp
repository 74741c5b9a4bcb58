#include "route/lifecycle.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "carrier/nccl/communicator.hpp"
#include "carrier/nccl/library.hpp"
#include "carrier/nccl/local_members.hpp"
#include "comm/control.hpp"
#include "comm/establish.hpp"
#include "comm/named.hpp"
#include "comm/state.hpp"
#include "datatype/extension.hpp"
#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "error/error.hpp"
#include "p2p/exchange.hpp"
#include "p2p/landing.hpp"
#include "p2p/plain.hpp"
#include "real.hpp"
#include "report/report.hpp"
#include "report/trace_file.hpp"
#include "request/engine.hpp"
#include "request/wait.hpp"
#include "route/child.hpp"
#include "route/depth.hpp"
#include "route/gate.hpp"
#include "route/job.hpp"
#include "route/plain.hpp"
#include "route/surroundings.hpp"
#include "route/tuning.hpp"
#include "settings/settings.hpp"
#include "stream/communicator.hpp"

namespace swy::route {
namespace {

// Who keeps Switchyard up in this process: MPI_COMM_WORLD from MPI_Init to MPI_Finalize, and each session (MPI 4.0
// section 11.3), in any order. The mutex is never held in a collective call: a session's thread must not wait for
// another's MPI_Init.
struct Users {
    std::mutex mutex;
    bool world = false;
    int sessions = 0;
};
constinit Users users{};

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
    int any = 0;
    const int rc = first_meeting(device::node_has_driver() ? 1 : 0, any);
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
    facts.tuning = tuning_account();
    facts.communicators = {counters.made, counters.split, counters.reused, counters.evicted, counters.live_max};
    return facts;
}

// The last user has gone: no call that needs Switchyard can follow.
void end() {
    request::stop_engine();
    p2p::Landing::release_kept();
    device::release_pools();
    datatype::release();
    gate::unwatch();
    gate::close();
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else, the last one first, and what the
// program has hung there may still communicate (MPI 4.0 section 11.2.4). Switchyard's is the first of all.
constinit bool hangs_on_self = false;

extern "C" int swy_self_delete(MPI_Comm, int, void*, void*) {
    hangs_on_self = false;
    before_finalize();
    return MPI_SUCCESS;
}

void hang_on_self() {
    int key = MPI_KEYVAL_INVALID;
    if (real::Comm_create_keyval(MPI_COMM_NULL_COPY_FN, swy_self_delete, &key, nullptr) != MPI_SUCCESS)
        return;
    hangs_on_self = real::Comm_set_attr(MPI_COMM_SELF, key, nullptr) == MPI_SUCCESS;
    real::Comm_free_keyval(&key);  // MPI keeps it for the attribute
}

void begin_world(const settings::Values& values) {
    const std::scoped_lock lock(users.mutex);
    settings::install(values, true);
    hang_on_self();
    users.world = true;
    request::has_self = true;
}

void end_world() {
    const std::scoped_lock lock(users.mutex);
    users.world = false;
    request::has_self = false;
    if (users.sessions == 0)
        end();
}

// A launcher, or who spawned this job, may have given it another error handler than MPI's default (MPI 4.0
// section 11.2.1).
void look_at_error_handlers() {
    for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
        MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
        const bool fatal = real::Comm_get_errhandler(comm, &handler) == MPI_SUCCESS && handler == MPI_ERRORS_ARE_FATAL;
        if (!fatal)
            p2p::errors_return.store(true, std::memory_order_relaxed);
        if (handler != MPI_ERRHANDLER_NULL)
            real::Errhandler_free(&handler);
    }
}

// What the ranks tell each other besides the program's messages, and point-to-point, which needs it.
int start_messages() {
    const int rc = comm::start_control();
    return rc != MPI_SUCCESS ? rc : p2p::start();
}

bool wants_report(const settings::Values& values) {
    return values.report != settings::ReportTo::kOff;
}

// Report and trace are gathered over MPI_COMM_WORLD. Where there never was one, their absence is explained once.
void explain_missing_report() {
    int initialized = 0;
    real::Initialized(&initialized);
    const char* rank = std::getenv("PMIX_RANK");
    const settings::Values& values = settings::values();
    if (initialized == 0 && (wants_report(values) || values.trace) &&
        (rank == nullptr || std::string_view(rank) == "0"))
        std::fprintf(stderr,
                     "switchyard: no %s: it is made over MPI_COMM_WORLD, and this program has MPI sessions alone\n",
                     wants_report(values) ? "report" : "trace");
}

}  // namespace

int after_init() {
    const Inside guard;
    settings::Values values;
    std::string problems = settings::read(values);
    bool gpus = false;
    if (const int rc = learn_whether_job_has_gpus(gpus); rc != MPI_SUCCESS)
        return rc;
    if (const int rc = share_settings(values); rc != MPI_SUCCESS)
        return rc;
    if (values.groups)
        if (const int rc = comm::share_group_file(values.groups_file); rc != MPI_SUCCESS)
            return rc;
    begin_world(values);
    std::string bad_file;
    if (const int rc = share_tuning(bad_file); rc != MPI_SUCCESS)
        return rc;
    problems += (problems.empty() || bad_file.empty() ? "" : "\n") + bad_file;
    if (!problems.empty())  // after the collective calls: the other ranks must not wait for one that stops here
        return error::raise(Owner(MPI_COMM_WORLD), MPI_ERR_OTHER, "MPI_Init: " + problems);
    if (!values.enabled)
        return MPI_SUCCESS;
    if (const int rc = comm::start(); rc != MPI_SUCCESS)
        return rc;
    if (const std::string obstacle = request::start_engine(); gpus && !obstacle.empty())
        std::fprintf(stderr, "switchyard: %s: non-blocking calls on device memory give an error\n", obstacle.c_str());
    if (gpus)
        if (const int rc = start_messages(); rc != MPI_SUCCESS)
            return rc;
    if (gpus)
        device::find_host_ranges();  // whether this process comes to load a driver or not
    look_at_error_handlers();
    job_agrees = gpus;
    forget_small_counts();
    gate::watch();
    report::enabled = wants_report(values) || values.trace;
    if (values.trace)
        report::begin_trace();
    if (report::enabled)
        gate::watch_calls();
    else if (gpus)
        gate::open();
    return values.eager ? make_eagerly(MPI_COMM_WORLD) : MPI_SUCCESS;
}

void before_finalize() {
    if (hangs_on_self)
        return;
    const Inside guard;
    comm::forget_groups();
    if (settings::values().enabled) {
        const bool reports = wants_report(settings::values());
        const report::Facts last = reports ? facts() : report::Facts{};
        stream::Communicator::finish_all();
        p2p::finish();
        job_agrees = false;
        comm::stop();
        carrier::nccl::LocalMembers::discard_all();
        carrier::nccl::Communicator::end_all();
        comm::stop_control();
        if (reports)
            report::write(last);
        if (settings::values().trace)
            report::write_trace();
        report::enabled = false;
    }
    end_world();
}

std::string after_session_init() {
    const Inside guard;
    const std::scoped_lock lock(users.mutex);
    p2p::errors_return.store(true,
                             std::memory_order_relaxed);  // sessions' communicators are made with handlers of theirs
    if (!users.world && users.sessions == 0) {
        settings::Values values;
        if (std::string problems = settings::read(values); !problems.empty())
            return problems;
        settings::install(values, false);
        if (values.enabled) {
            request::start_engine();
            gate::watch();
        }
    }
    datatype::open_sessions = ++users.sessions;
    return {};
}

void before_session_finalize() {
    const Inside guard;
    const std::scoped_lock lock(users.mutex);
    if (users.sessions == 0)
        return;
    datatype::open_sessions = --users.sessions;
    if (users.sessions > 0 || users.world)
        return;
    explain_missing_report();
    end();
}

}  // namespace swy::route
