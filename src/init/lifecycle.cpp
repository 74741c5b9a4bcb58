#include "init/lifecycle.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "call/depth.hpp"
#include "call/job.hpp"
#include "coll/comm_created.hpp"
#include "coll/tuning.hpp"
#include "comm/gates.hpp"
#include "comm/job_messages.hpp"
#include "comm/losses.hpp"
#include "comm/setup.hpp"
#include "comm/state.hpp"
#include "datatype/extension.hpp"
#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "error/error.hpp"
#include "error/loss.hpp"
#include "ext/named/named.hpp"
#include "ext/stream/communicator.hpp"
#include "fastpath/collective.hpp"
#include "fastpath/driver_watch.hpp"
#include "fastpath/message.hpp"
#include "init/environment_check.hpp"
#include "init/profilers.hpp"
#include "nccl/communicator.hpp"
#include "nccl/library.hpp"
#include "p2p/bounce_buffer.hpp"
#include "p2p/mapped.hpp"
#include "p2p/service.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "report/flight.hpp"
#include "report/last_words.hpp"
#include "report/report.hpp"
#include "report/routes.hpp"
#include "report/trace_file.hpp"
#include "report/watchdog.hpp"
#include "request/timed.hpp"
#include "settings/settings.hpp"
#include "settings/slurm.hpp"
#include "tool/variables.hpp"

namespace swy::init {
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

void tell_old_names() {
    const std::string names = settings::old_names();
    int rank = 0;
    if (!names.empty() && real::Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0)
        std::fprintf(stderr, "switchyard: %s\n", names.c_str());
}

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

report::Facts facts() {
    report::Facts facts;
    facts.mpi_library = mpi_version();
    const auto counters = nccl::Communicator::counters();
    // Asking for the version would load the library into a job that never needed it.
    facts.nccl_version = counters.made > 0 ? nccl::version_text() : "";
    facts.driver = device::driver_text();
    facts.kernels = device::kernels_problem();
    char host[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    real::Get_processor_name(host, &length);
    facts.host = host;
    facts.device = device::in_words(comm::device_in_use());
    facts.tuning = coll::tuning_account();
    const real::Profilers tools = real::profilers();
    facts.tools_above = tools.above;
    facts.tools_below = tools.below;
    facts.communicators = {counters.made, counters.reused, counters.evicted, counters.live_max};
    return facts;
}

// The last user has gone: no call that needs Switchyard can follow.
void end() {
    progress::stop_engine();
    p2p::BounceBuffer::release_kept();
    device::release_pools();
    datatype::release();
    driver_watch::unwatch();
    driver_watch::close();
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else, the last one first, and the
// callbacks of the program's attributes may still communicate (MPI 4.0 section 11.2.4). Switchyard's attribute is the
// first of all.
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
    progress::has_self = true;
}

void end_world() {
    const std::scoped_lock lock(users.mutex);
    users.world = false;
    progress::has_self = false;
    if (users.sessions == 0)
        end();
}

// A launcher, or whoever spawned this job, may have given it another error handler than MPI's default (MPI 4.0 section
// 11.2.1).
void look_at_error_handlers() {
    for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
        MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
        const bool fatal = real::Comm_get_errhandler(comm, &handler) == MPI_SUCCESS && handler == MPI_ERRORS_ARE_FATAL;
        if (!fatal)
            fastpath::errors_return.store(true, std::memory_order_relaxed);
        if (handler != MPI_ERRHANDLER_NULL)
            real::Errhandler_free(&handler);
    }
}

// Starts the messages between ranks that the program does not see, and point-to-point, which needs them.
int start_messages() {
    const int rc = comm::start_control();
    if (rc == MPI_SUCCESS)
        comm::start_losses(p2p::lose);
    return rc != MPI_SUCCESS ? rc : p2p::start();
}

bool wants_report(const settings::Values& values) {
    return values.report != settings::ReportTo::kOff;
}

// Once for the job, or for the step of jobs that should have been one. Programs that use no GPU may mean it so.
void look_at_slurm(const std::string& alone) {
    int rank = 0, size = 0;
    real::Comm_rank(MPI_COMM_WORLD, &rank);
    real::Comm_size(MPI_COMM_WORLD, &size);
    const std::string problem = size == 1 ? alone : settings::gpus_hidden_by_slurm();
    if (rank == 0 && settings::is_first_task() && !problem.empty())
        std::fprintf(stderr, "switchyard: %s\n", problem.c_str());
}

void begin_routes(const settings::Values& values) {
    if (const std::string problem = report::start_routes(values.debug, values.debug_folder); !problem.empty())
        std::fprintf(stderr, "switchyard: SWITCHYARD_DEBUG: %s; the lines go to standard error\n", problem.c_str());
}

void begin_recording(const settings::Values& values) {
    const report::watchdog::Limits limits = {
        .stall = values.stall, .timeout = values.timeout, .ends_job = values.on_failure == settings::OnFailure::kAbort};
    if (!report::flight::start(report::covers_host_calls, mpi_version(), limits))
        return;
    const bool to_file = values.report == settings::ReportTo::kJson;
    error::before_abort = report::say_last_words;
    error::on_timeout = report::say_what_ranks_are_in;
    report::begin_last_words(to_file                ? values.report_file
                             : wants_report(values) ? "-"
                                                    : "",
                             values.trace ? report::write_own_trace : nullptr);
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

int after_init(const std::string& alone) {
    const call::Inside guard;
    settings::Values values;
    std::string problems = settings::read(values);
    tell_old_names();
    bool gpus = false;
    if (const int rc = learn_whether_job_has_gpus(gpus); rc != MPI_SUCCESS)
        return rc;
    if (const int rc = share_settings(values); rc != MPI_SUCCESS)
        return rc;
    if (values.groups)
        if (const int rc = named::share_group_file(values.groups_file); rc != MPI_SUCCESS)
            return rc;
    begin_world(values);
    error::start_survival();
    std::string bad_file;
    if (const int rc = coll::share_tuning(bad_file); rc != MPI_SUCCESS)
        return rc;
    problems += (problems.empty() || bad_file.empty() ? "" : "\n") + bad_file;
    if (!problems.empty())  // after the collective calls: the other ranks must not wait for one that stops here
        return error::raise(Owner(MPI_COMM_WORLD), MPI_ERR_OTHER, "MPI_Init: " + problems);
    if (!values.enabled)
        return MPI_SUCCESS;
    if (const int rc = comm::start(); rc != MPI_SUCCESS)
        return rc;
    progress::start_engine();
    if (gpus && progress::calls_step())
        if (const int rc = comm::open_gates(); rc != MPI_SUCCESS)
            return rc;
    if (gpus)
        if (const int rc = start_messages(); rc != MPI_SUCCESS)
            return rc;
    if (gpus)
        device::find_host_ranges();  // whether this process loads a driver or not
    if (gpus)
        look_at_slurm(alone);
    look_at_error_handlers();
    call::job_agrees = gpus;
    call::limited = values.timeout > 0;
    call::agreed_from = call::limited ? 0 : call::threshold;
    fastpath::forget_small_counts();
    driver_watch::watch();
    report::covers_host_calls = wants_report(values) || values.trace;
    report::begin_run();
    if (values.status && (gpus || wants_report(values) || values.trace))
        begin_recording(values);
    begin_routes(values);
    report::enabled = report::covers_host_calls || report::tells_routes || tool::counts_calls;
    if (values.trace)
        report::begin_trace();
    if (report::covers_host_calls) {
        driver_watch::watch_calls();
        request::complete::time_calls();
    } else if (gpus) {
        driver_watch::open();
    }
    return coll::prepare(MPI_COMM_WORLD);
}

void before_finalize() {
    if (hangs_on_self)
        return;
    const call::Inside guard;
    named::forget_groups();
    if (settings::values().enabled) {
        const bool reports = wants_report(settings::values());
        const report::Facts last = reports ? facts() : report::Facts{};
        const report::flight::Operation here(CallId::kFinalize, Owner(MPI_COMM_WORLD));
        stream::Communicator::finish_all();
        const MPI_Comm left = error::left_of(MPI_COMM_WORLD);
        const MPI_Comm ranks = error::survives ? left : comm::control_communicator();
        p2p::finish(ranks);
        const bool gpus = std::exchange(call::job_agrees, false);
        comm::close_gates();
        comm::stop();
        nccl::Communicator::end_all();
        if (gpus)
            p2p::mapped::finish(ranks);  // where NCCL has ended what never ended by itself
        comm::stop_losses();
        comm::stop_control();
        if (reports && left != MPI_COMM_NULL)
            report::write(last, left);
        if (settings::values().trace)
            report::write_trace();
        report::enabled = report::covers_host_calls = false;
        report::stop_routes();
        report::end_last_words();
        report::watchdog::stop();
        report::flight::stop();
    }
    end_world();
}

std::string after_session_init() {
    const call::Inside guard;
    const std::scoped_lock lock(users.mutex);
    fastpath::errors_return.store(
        true,
        std::memory_order_relaxed);  // sessions' communicators are created with error handlers of their own
    if (!users.world && users.sessions == 0) {
        settings::Values values;
        if (std::string problems = settings::read(values); !problems.empty())
            return problems;
        settings::install(values, false);
        if (values.enabled) {
            progress::start_engine();
            driver_watch::watch();
        }
    }
    datatype::open_sessions = ++users.sessions;
    return {};
}

void before_session_finalize() {
    const call::Inside guard;
    const std::scoped_lock lock(users.mutex);
    if (users.sessions == 0)
        return;
    datatype::open_sessions = --users.sessions;
    if (users.sessions > 0 || users.world)
        return;
    explain_missing_report();
    end();
}

}  // namespace swy::init
