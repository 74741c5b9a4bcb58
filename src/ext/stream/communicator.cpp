#include "ext/stream/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <utility>

#include "call/job.hpp"
#include "call/private_comm.hpp"
#include "comm/collective_setup.hpp"
#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "error/error.hpp"
#include "ext/stream/message.hpp"
#include "nccl/member.hpp"
#include "nccl/operation.hpp"
#include "nccl/transfer.hpp"
#include "progress/keep_until.hpp"
#include "progress/stall.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "report/processes.hpp"
#include "report/trace.hpp"
#include "report/watchdog.hpp"
#include "request/handle.hpp"
#include "settings/settings.hpp"

namespace swy::stream {

int end_communicator(MPI_Comm comm);

namespace {

struct Registry {
    std::mutex mutex;
    std::map<MPI_Comm, std::shared_ptr<Communicator>> all;
    int key = MPI_KEYVAL_INVALID;
};
Registry& registry() {
    static auto* the_registry = new Registry;  // not destroyed at exit
    return *the_registry;
}

std::shared_ptr<Communicator> take(MPI_Comm comm) {
    const std::scoped_lock lock(registry().mutex);
    const auto it = registry().all.find(comm);
    if (it == registry().all.end())
        return nullptr;
    std::shared_ptr<Communicator> found = std::move(it->second);
    registry().all.erase(it);
    return found;
}

// The attribute's value is not used: a callback that returns an error may be called again.
extern "C" int swy_stream_communicator_delete(MPI_Comm comm, int, void*, void*) {
    return end_communicator(comm);
}

int make_key() {
    const std::scoped_lock lock(registry().mutex);
    if (registry().key != MPI_KEYVAL_INVALID)
        return MPI_SUCCESS;
    return real::Comm_create_keyval(MPI_COMM_NULL_COPY_FN, swy_stream_communicator_delete, &registry().key, nullptr);
}

// With more ranks, two of them are connected by their first message: the program then decides how much memory NCCL
// takes for peers.
constexpr int kAllConnected = 16, kConnectTag = 2;

// Has NCCL connect the ranks for messages, and MPI for the records of SizeCheck. Both otherwise do so at the first one
// and wait for the other rank meanwhile (MPI's send does over libfabric), which an enqueue call should not: the other
// rank may wait for its stream, outside MPI. All ranks make the call. Returns "" or the error.
std::string connect_all(const std::shared_ptr<nccl::Communicator>& communicator, MPI_Comm comm) {
    const int rank = communicator->rank(), size = communicator->size();
    if (size > kAllConnected)
        return {};
    std::vector<nccl::Piece> pairs;
    for (int step = 1; step < size; ++step) {
        const int to = (rank + step) % size, from = (rank + size - step) % size;
        if (real::Sendrecv(nullptr, 0, MPI_BYTE, to, kConnectTag, nullptr, 0, MPI_BYTE, from, kConnectTag, comm,
                           MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return "MPI did not connect the ranks";
        pairs.push_back({.peer = to});
    }
    return pairs.empty() ? std::string{} : nccl::run(nccl::greeting(pairs), communicator, comm);
}

}  // namespace

int end_communicator(MPI_Comm comm) {
    const auto ending = take(comm);
    return ending != nullptr ? ending->end() : MPI_SUCCESS;
}

std::shared_ptr<Communicator> Communicator::find(MPI_Comm comm) {
    const std::scoped_lock lock(registry().mutex);
    const auto it = registry().all.find(comm);
    return it != registry().all.end() ? it->second : nullptr;
}

int Communicator::create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* made) {
    if (const int code = make_key(); code != MPI_SUCCESS)
        return code;
    if (const int code = real::Comm_dup(comm, made); code != MPI_SUCCESS)
        return code;
    auto communicator = std::make_shared<Communicator>(*made);
    communicator->stream = stream;
    communicator->object = stream::find(stream);
    if (const int code = communicator->choose_route(); code != MPI_SUCCESS) {
        if (communicator->private_comm_ != MPI_COMM_NULL)
            real::Comm_free(&communicator->private_comm_);
        real::Comm_free(made);
        return code;
    }
    {
        const std::scoped_lock lock(registry().mutex);
        registry().all.emplace(*made, communicator);
    }
    return real::Comm_set_attr(*made, registry().key, communicator.get());
}

Reason Communicator::own_obstacle() {
    if (device_stream.context() == nullptr)
        return where.ordinal >= 0 ? Reason::kNoMemory : Reason::kNoStream;
    if (!where.primary)
        return Reason::kForeignContext;
    return device::has_stream_order(where.ordinal) ? Reason::kNone : Reason::kNoMemory;
}

int Communicator::choose_route() {
    real::Comm_rank(handle, &rank);
    real::Comm_size(handle, &size);
    if (object != nullptr && object->cuda) {
        where = device::locate_stream(object->handle);
        if (where.ordinal >= 0)
            device::Stream::acquire_on(object->handle, where.context, device_stream);
    }
    const comm::State* state = comm::of(handle);
    reason = state == nullptr                                 ? Reason::kNoStream
             : state->inter                                   ? Reason::kIntercomm
             : state->spans_jobs                              ? Reason::kSpansJobs
             : size == 1                                      ? Reason::kOneRank
             : settings::values().nccl == settings::Nccl::kNo ? Reason::kNcclOff
             : !call::job_agrees                              ? Reason::kNoStream
                                                              : Reason::kNone;
    if (reason != Reason::kNone)
        return MPI_SUCCESS;
    const std::array<int, 2> mine{static_cast<int>(own_obstacle()), device_stream.has_kernels() ? 0 : 1};
    std::array<int, 2> all{};
    if (const int code = real::Allreduce(mine.data(), all.data(), 2, MPI_INT, MPI_MAX, handle); code != MPI_SUCCESS)
        return code;
    reason = static_cast<Reason>(all[0]);
    all_have_kernels = all[1] == 0;
    bool made = false;
    if (reason != Reason::kNone)
        return MPI_SUCCESS;
    const int code = make_nccl(made);
    if (code != MPI_SUCCESS || made || private_comm_ == MPI_COMM_NULL)
        return code;
    return real::Comm_free(&private_comm_);
}

// Makes the NCCL communicator for a private MPI communicator that nothing else uses: only enqueued calls are launched
// on it, in the order of the program's calls.
int Communicator::make_nccl(bool& made) {
    if (const int code = call::make_private_comm(handle, &private_comm_); code != MPI_SUCCESS)
        return code;
    comm::State* state = comm::of(private_comm_);
    if (state == nullptr)
        return MPI_ERR_NO_MEM;
    if (const int code = comm::set_up(*state, where, 0); code != MPI_SUCCESS)
        return code;
    if (state->nccl == nullptr) {
        reason = state->obstacle;
        return MPI_SUCCESS;
    }
    nccl = state->nccl;
    const std::string failure = connect_all(nccl, private_comm_);
    const int mine = failure.empty() ? 1 : 0;
    int all = 0;
    const int code = real::Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, handle);
    made = code == MPI_SUCCESS && all == 1;
    if (made) {
        words.emplace(private_comm_);
        find_processes();
        constexpr double kShare = 8, kOften = 1;  // of SWITCHYARD_TIMEOUT; seconds
        const double timeout = settings::values().timeout;
        report::watchdog::watch_streams(look_at_all, timeout > 0 ? std::min(timeout / kShare, kOften) : kOften);
        return MPI_SUCCESS;
    }
    reason = Reason::kNcclFailed;
    nccl->abort();
    nccl = nullptr;
    return code;
}

std::string not_in_graph(std::string_view why) {
    return fmt::format(
        "its stream is being captured, and no CUDA graph can have this call: {}. What to do: call it "
        "outside the capture, which stays valid",
        why);
}

std::string Communicator::look_at_capture() {
    using device::Stream;
    const Stream::Capture capture =
        device_stream.context() != nullptr ? device_stream.capture() : Stream::Capture::kNone;
    captured = capture == Stream::Capture::kActive;
    if (capture == Stream::Capture::kInvalidated)
        return "the capture of its stream has been invalidated by an earlier error. What to do: end it by "
               "cudaStreamEndCapture and capture again";
    if (capture == Stream::Capture::kLegacy)
        return "its stream is the legacy default stream, which CUDA forbids to use while a stream that synchronises "
               "with it is captured. What to do: make either with cudaStreamNonBlocking";
    return {};
}

std::string Communicator::enqueue(std::unique_ptr<nccl::Job> job) {
    if (!captured)
        return nccl::Operation::enqueue(std::move(job), nccl, device_stream);
    return nccl::Operation::enqueue(std::move(job), nccl, device_stream, &in_graphs.emplace_back());
}

std::string Communicator::lock_and_wait(Reason why) {
    const std::scoped_lock lock(mutex);
    if (std::string failure = look_at_capture(); !failure.empty())
        return failure;
    return captured ? not_in_graph(explain(why)) : wait_for_stream();
}

std::string Communicator::trouble() {
    if (report::trace::on && !captured) {  // work that is done by now gets its end in the trace
        bool done = false;
        device_stream.query(done);
    }
    std::string why = words->receive(rank);
    if (why.empty())
        why = nccl->trouble();
    if (!why.empty()) {
        const bool news = nccl->usable();
        nccl->fail(why);
        if (news)
            nccl::await_explanation(*nccl);
    }
    return why;
}

report::flight::Operation* Communicator::begin_queuing(CallId id) {
    if (captured)
        return nullptr;
    last_call_ = id;
    limit_.emplace(settings::values().timeout);
    queued_.end();
    queued_.begin(id, Owner(handle));
    return &queued_;
}

report::flight::Operation* Communicator::begin_queuing_collective(CallId id) {
    report::flight::Operation* const flight = begin_queuing(id);
    if (flight != nullptr)
        flight->is_collective(static_cast<std::int64_t>(nccl->id()), ++collectives_);
    return flight;
}

// A process that cannot be seen from here, as one in another container, is not looked after.
void Communicator::find_processes() {
    const nccl::Group& group = nccl->group();
    for (int r = 0; r < size; ++r) {
        const nccl::Member& member = group[static_cast<std::size_t>(r)];
        const int number = static_cast<int>(member.process);
        if (r == rank || member.host != nccl::host_here() || !report::process_lives(number))
            continue;
        processes_.push_back({r, number, report::process_began(number)});
    }
}

void Communicator::look_at_all() noexcept {
    std::vector<std::shared_ptr<Communicator>> all;
    try {
        {
            const std::scoped_lock lock(registry().mutex);
            for (const auto& [handle, communicator] : registry().all)
                all.push_back(communicator);
        }
        for (const auto& communicator : all)
            communicator->look();
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "switchyard: streams cannot be looked after: %s\n", problem.what());
    }
}

// While the mutex is held, a call that does the same is at work.
void Communicator::look() {
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (!lock.owns_lock() || !direct() || !limit_.has_value())
        return;
    bool done = false;
    if (!device_stream.alive() || device_stream.query(done) != 0 || done) {
        queued_.end();
        limit_.reset();
        return;
    }
    if (!nccl->usable())
        return;
    const std::string why = why_it_never_ends();
    if (why.empty())
        return;
    std::fprintf(
        stderr,
        "switchyard: %s on rank %d of a stream communicator (%d ranks), whose stream has not ended it: %s. NCCL "
        "leaves what is on the stream; the communicator's next call is an error\n",
        std::string(name(last_call_)).c_str(), rank, size, why.c_str());
    nccl->abort(why);
}

// This thread may call MPI where any may; otherwise the other ranks' failures are not heard of here.
std::string Communicator::why_it_never_ends() {
    std::string why = nccl->failure_here();
    if (why.empty() && !request::one_thread) {
        constexpr int kTurns = 8;
        for (int turn = 0; turn < kTurns; ++turn)
            progress::progress();
        comm::receive_failures();
        why = nccl->failure_elsewhere();
    }
    for (const Process& process : processes_)
        if (why.empty() && report::process_began(process.number) != process.began)
            why = fmt::format("rank {} has ended (process {})", process.rank, process.number);
    if (why.empty() && limit_->passed())
        why = limit_->why() + ": the work on the stream did not finish";
    return why;
}

std::string Communicator::wait_for_stream() {
    if (device_stream.context() == nullptr)
        return {};
    if (const device::Result recorded = device_stream.record(); recorded != 0)
        return device::describe(recorded);
    const progress::Deadline deadline(settings::values().timeout, handle);
    for (;;) {
        bool done = false;
        if (const device::Result queried = device_stream.query(done); queried != 0)
            return device::describe(queried);
        if (done)
            return direct() ? nccl->failure_here() : std::string{};
        if (direct())
            if (std::string why = trouble(); !why.empty())
                return why;
        if (deadline.passed())
            return deadline.why() + ": the work on the stream did not finish";
        progress::progress();
    }
}

// Ends the communicator when everything enqueued is done: other ranks enqueue their parts before they free it too.
int Communicator::end() {
    std::string failure;
    if (direct()) {
        const std::scoped_lock lock(mutex);
        look_at_capture();
        failure = launch_pending(*this);
        pending.clear();
        const auto describe = [&] {
            return fmt::format(
                "the end of a stream communicator ({} ranks), on rank {}: the work on the stream has not "
                "ended",
                size, rank);
        };
        const progress::Waiting waiting(describe);
        const progress::Deadline deadline(settings::values().timeout, handle);
        bool done = false;
        while (failure.empty() && !(done && words->quiet())) {
            if (!device_stream.alive())
                break;
            failure = device_stream.query(done) != 0 ? "the work on the stream has failed" : trouble();
            if (failure.empty() && deadline.passed())
                failure = deadline.why() + ": the work on the stream did not finish";
            progress::progress();
        }
        if (!failure.empty()) {
            fail(failure);
            progress::keep_for_ever(std::move(host_copies));  // their functions may still run
        }
        // The memory would be freed in the order of the stream, which may no longer exist.
        progress::keep_for_ever(std::move(self_sent));
        words->finish();
        queued_.end();
        in_graphs.clear();
        nccl = nullptr;
        real::Comm_free(&private_comm_);
    }
    object = nullptr;
    device_stream = device::Stream();
    return failure.empty() ? MPI_SUCCESS
                           : error::raise(Owner(handle), MPI_ERR_OTHER,
                                          fmt::format("at the end of a stream communicator ({} ranks), on rank {}: {}",
                                                      size, rank, failure));
}

void Communicator::finish_all() {
    for (;;) {
        MPI_Comm next = MPI_COMM_NULL;
        {
            const std::scoped_lock lock(registry().mutex);
            if (registry().all.empty())
                break;
            next = registry().all.begin()->first;
        }
        real::Comm_delete_attr(next, registry().key);
        end_communicator(next);  // where the attribute was not set
    }
    const std::scoped_lock lock(registry().mutex);
    if (registry().key != MPI_KEYVAL_INVALID)
        real::Comm_free_keyval(&registry().key);
}

}  // namespace swy::stream
