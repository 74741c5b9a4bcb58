#include "ext/stream/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "datatype/layout.hpp"
#include "error/error.hpp"
#include "nccl/operation.hpp"
#include "nccl/transfer.hpp"
#include "real.hpp"
#include "report/report.hpp"
#include "report/routes.hpp"

namespace swy::stream {
namespace {

// Requests that represent messages, until they are waited for.
struct Requests {
    std::mutex mutex;
    std::map<MPI_Request, std::shared_ptr<Message>> all;
};
Requests& requests() {
    static auto* the_requests = new Requests;  // not destroyed at exit
    return *the_requests;
}

std::shared_ptr<Message> take(MPI_Request request) {
    const std::scoped_lock lock(requests().mutex);
    const auto it = requests().all.find(request);
    if (it == requests().all.end())
        return nullptr;
    std::shared_ptr<Message> found = std::move(it->second);
    requests().all.erase(it);
    return found;
}

// The messages that are launched together.
class Batch {
  public:
    explicit Batch(Communicator& comm) : comm_(comm) {}

    std::string launch(const std::deque<std::shared_ptr<Message>>& messages) {
        std::optional<device::ScratchInOrder> scope;
        if (!comm_.captured)
            scope.emplace(comm_.device_stream);
        std::string failure;
        for (const auto& message : messages)
            if (failure.empty() && !message->with_nobody() && !to_self(*message))
                failure = add(*message);
        for (const bool send : {true, false})  // sends first, so that a message to itself can be received
            for (const auto& message : messages)
                if (failure.empty() && to_self(*message) && message->call.send == send)
                    failure = send ? keep(*message) : receive(*message);
        if (failure.empty() && !pieces_.empty())
            failure = comm_.enqueue(nccl::transfer(std::move(pieces_), nullptr));
        for (StagedOperand& data : brought_)
            if (failure.empty())
                failure = data.out(comm_);
        for (const auto& message : messages)
            message->launched |= !to_self(*message);
        return failure;
    }

  private:
    bool to_self(const Message& message) const { return message.call.peer == comm_.rank; }

    std::string stage(const Message& message) {
        const MessageCall& call = message.call;
        StagedOperand& data = brought_.emplace_back();
        const Access access = call.send ? Access::kIn : Access::kOut;
        std::string failure =
            data.stage(comm_, {call.address, static_cast<std::size_t>(call.count), call.type, access, false, true});
        return failure.empty() ? data.in(comm_) : failure;
    }

    std::string add(const Message& message) {
        const MessageCall& call = message.call;
        if (std::string failure = stage(message); !failure.empty())
            return failure;
        const std::size_t bytes = message.bytes();
        if (!call.send)
            comm_.words->expect(call.peer, call.tag, bytes);
        else if (comm_.words->tell(call.peer, call.tag, bytes) != MPI_SUCCESS)
            return "MPI_Isend of a word to the receiver has failed";
        if (bytes != 0)
            pieces_.push_back({.send = call.send, .peer = call.peer, .data = brought_.back().data(), .bytes = bytes});
        return {};
    }

    std::string keep(Message& message) {
        if (std::string failure = stage(message); !failure.empty())
            return failure;
        SelfSent& kept = comm_.self_sent.emplace_back();
        kept.tag = message.call.tag;
        kept.bytes = message.bytes();
        message.launched = true;
        return copy(kept, kept.copy, brought_.back(), true);
    }

    std::string receive(Message& message) {
        if (comm_.self_sent.empty())
            return {};
        SelfSent sent = std::move(comm_.self_sent.front());
        comm_.self_sent.pop_front();
        message.launched = true;
        const MessageCall& call = message.call;
        if (sent.bytes != message.bytes() || (call.tag != sent.tag && call.tag != MPI_ANY_TAG))
            return fmt::format(
                "a message from rank {} to itself is sent with tag {} and {} bytes, and received with "
                "tag {} and {} bytes",
                comm_.rank, sent.tag, sent.bytes, call.tag, message.bytes());
        if (std::string failure = stage(message); !failure.empty())
            return failure;
        return copy(sent, sent.copy, brought_.back(), false);
    }

    std::string copy(const SelfSent& sent, device::Scratch& kept, const StagedOperand& data, bool in) {
        if (sent.bytes == 0)
            return {};
        device::Result result = in ? device::Scratch::acquire(comm_.where.context, sent.bytes, kept) : 0;
        if (result == 0)
            result = in ? comm_.device_stream.copy(kept.data(), data.data(), sent.bytes)
                        : comm_.device_stream.copy(data.data(), kept.data(), sent.bytes);
        return result == 0 ? std::string{}
                           : fmt::format("a message from rank {} to itself: {}", comm_.rank, device::describe(result));
    }

    Communicator& comm_;
    std::deque<StagedOperand> brought_;
    std::vector<nccl::Piece> pieces_;
};

std::size_t bytes_of(const MessageCall& call) {
    return call.peer == MPI_PROC_NULL ? 0 : static_cast<std::size_t>(call.count) * datatype::size_of(call.type);
}

// All messages of a launch end together: the last one stands for them.
report::flight::Operation* begin_queuing(Communicator& comm, const MessageCall& call) {
    report::flight::Operation* const flight = comm.begin_queuing(call.id);
    if (flight != nullptr)
        flight->is_message(call.peer, call.tag);
    return flight;
}

report::RouteOfCall tell_route(const MessageCall& call, Carrier carrier, Reason reason,
                               report::flight::Operation* begun = nullptr) {
    return report::tell_route(call.id, Owner(call.comm), report::wants_routes() ? bytes_of(call) : 0, carrier, reason,
                              begun);
}

// Messages are launched where they were begun: within the capture, or outside all. Those of a capture that has ended
// are dropped, as nothing can launch them any more.
std::string on_this_side_of_capture(Communicator& comm) {
    const bool same = std::all_of(comm.pending.begin(), comm.pending.end(),
                                  [&](const auto& message) { return message->captured == comm.captured; });
    if (same)
        return {};
    if (comm.captured)
        return "messages that were begun before the capture of its stream are not queued yet. What to do: complete "
               "them "
               "by MPIX_Wait_enqueue before the capture begins";
    std::erase_if(comm.pending, [](const auto& message) {
        message->launched |= message->captured;
        return message->captured;
    });
    return "messages begun in its stream's capture were not waited for in the capture, and are dropped. What to do: "
           "complete them by MPIX_Wait_enqueue before the capture ends";
}

// Launches all pending messages, and `last` where there is one. Called under the mutex.
std::string launch(Communicator& comm, const std::shared_ptr<Message>& last) {
    if (last != nullptr)
        comm.pending.push_back(last);
    if (comm.pending.empty())
        return {};
    if (std::string failure = on_this_side_of_capture(comm); !failure.empty()) {
        std::erase(comm.pending, last);
        return failure;
    }
    if (last == nullptr)
        if (auto* const flight = begin_queuing(comm, comm.pending.back()->call); flight != nullptr)
            flight->route(Carrier::kNccl, Reason::kNone, bytes_of(comm.pending.back()->call));
    std::string failure = Batch(comm).launch(comm.pending);
    std::erase_if(comm.pending, [](const auto& message) { return message->launched; });
    if (last != nullptr && !last->launched) {
        std::erase(comm.pending, last);
        if (failure.empty())
            failure =
                fmt::format("rank {} receives from itself and has sent nothing: it would wait for ever", comm.rank);
    }
    if (comm.captured)
        return failure;
    if (!failure.empty())
        comm.fail(failure);
    else if (const device::Result recorded = comm.device_stream.record(); recorded != 0)
        failure = device::describe(recorded);
    return failure;
}

int failed(const MessageCall& call, const Communicator& comm, const std::string& why) {
    return error::raise(
        Owner(call.comm), MPI_ERR_OTHER,
        fmt::format("{} on rank {} of a stream communicator ({} ranks): {}", name(call.id), comm.rank, comm.size, why));
}

// Tells whether the arguments are valid: MPI reports invalid ones better itself.
bool valid(const MessageCall& call, const Communicator& comm) {
    const bool peer = (call.peer >= 0 && call.peer < comm.size) || call.peer == MPI_PROC_NULL ||
                      (!call.send && call.peer == MPI_ANY_SOURCE);
    const bool tag = call.tag >= 0 || (!call.send && call.tag == MPI_ANY_TAG);
    return peer && tag && call.count >= 0 && call.type != MPI_DATATYPE_NULL;
}

std::string refusal(const MessageCall& call) {
    return call.send || call.peer != MPI_ANY_SOURCE
               ? std::string{}
               : "MPI_ANY_SOURCE: who has sent is not known when the receive is queued on the stream: name the source";
}

// Why a message cannot be captured, where it is.
std::string refusal(const MessageCall& call, const Communicator& comm) {
    if (!comm.captured || call.peer == MPI_PROC_NULL || call.count == 0)
        return {};
    if (call.peer == comm.rank)
        return not_in_graph("a message to the rank itself; cudaMemcpyAsync can be captured");
    const auto layout = datatype::layout_of(call.type);
    if (!layout->contiguous)
        return not_in_graph(explain(Reason::kDerivedType));
    return StagedOperand::is_here(comm, static_cast<std::byte*>(call.address) + layout->true_lb)
               ? std::string{}
               : not_in_graph("a buffer is not memory of the stream's GPU");
}

void fill(const Message& message, MPI_Status* status) {
    if (status == MPI_STATUS_IGNORE)
        return;
    const MessageCall& call = message.call;
    const bool receives = !call.send && !message.with_nobody();
    status->MPI_SOURCE = call.send ? MPI_ANY_SOURCE : call.peer;
    status->MPI_TAG = receives ? call.tag : MPI_ANY_TAG;
    real::Status_set_elements_x(status, MPI_BYTE, receives ? static_cast<MPI_Count>(message.bytes()) : 0);
    real::Status_set_cancelled(status, 0);
}

void tell(const MessageCall& call, Carrier carrier, Reason reason, report::Time start) {
    if (report::enabled)
        report::tell_call(call.id, carrier, reason, bytes_of(call), start);
}

// The host makes the call, once the stream's work is done.
int by_host(const MessageCall& call, Communicator& comm, const Ordinary& ordinary, report::Time start) {
    const auto range = tell_route(call, Carrier::kStaged, comm.reason);
    if (const std::string failure = comm.lock_and_wait(comm.reason); !failure.empty())
        return failed(call, comm, failure);
    const int code = ordinary();
    tell(call, Carrier::kStaged, comm.reason, start);
    return code;
}

constexpr const char* kNone = "the communicator has no stream: MPIX_Stream_comm_create makes those that have";

}  // namespace

std::size_t Message::bytes() const {
    return static_cast<std::size_t>(call.count) * datatype::size_of(call.type);
}

std::string launch_pending(Communicator& comm) {
    return launch(comm, nullptr);
}

int message(const MessageCall& call, MPI_Status* status, const Ordinary& ordinary) {
    const report::Time start = std::chrono::steady_clock::now();
    const auto comm = Communicator::find(call.comm);
    if (comm == nullptr)
        return error::raise(Owner(call.comm), MPI_ERR_COMM, fmt::format("{}: {}", name(call.id), kNone));
    if (!valid(call, *comm))
        return ordinary();
    if (!comm->direct())
        return by_host(call, *comm, ordinary, start);
    if (const std::string why = refusal(call); !why.empty())
        return failed(call, *comm, why);
    const auto made = std::make_shared<Message>(Message{call, comm});
    {
        const std::scoped_lock lock(comm->mutex);
        std::string failure = comm->look_at_capture();
        if (failure.empty())
            failure = refusal(call, *comm);
        if (failure.empty())
            failure = comm->trouble();
        if (failure.empty()) {
            made->captured = comm->captured;
            const auto range = tell_route(call, Carrier::kNccl, Reason::kNone, begin_queuing(*comm, call));
            failure = launch(*comm, made);
        }
        if (!failure.empty())
            return failed(call, *comm, failure);
    }
    fill(*made, status);
    tell(call, Carrier::kNccl, Reason::kNone, start);
    return MPI_SUCCESS;
}

// The request is a real handle that nothing completes: only the enqueue calls know what it represents.
int begin_message(const MessageCall& call, MPI_Request* request, const Ordinary& ordinary) {
    const report::Time start = std::chrono::steady_clock::now();
    const auto comm = Communicator::find(call.comm);
    if (comm == nullptr)
        return error::raise(Owner(call.comm), MPI_ERR_COMM, fmt::format("{}: {}", name(call.id), kNone));
    if (!valid(call, *comm))
        return ordinary();
    if (!comm->direct())
        return by_host(call, *comm, ordinary, start);
    if (const std::string why = refusal(call); !why.empty())
        return failed(call, *comm, why);
    const auto made = std::make_shared<Message>(Message{call, comm});
    std::string failure;
    {
        const std::scoped_lock lock(comm->mutex);
        failure = comm->look_at_capture();
        if (failure.empty())
            failure = refusal(call, *comm);
        made->captured = comm->captured;
    }
    if (!failure.empty())
        return failed(call, *comm, failure);
    if (const int code = real::Recv_init(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, call.comm, request);
        code != MPI_SUCCESS)
        return code;
    const auto range = tell_route(call, Carrier::kNccl, Reason::kNone);
    {
        const std::scoped_lock lock(comm->mutex);
        comm->pending.push_back(made);
    }
    {
        const std::scoped_lock lock(requests().mutex);
        requests().all.emplace(*request, made);
    }
    tell(call, Carrier::kNccl, Reason::kNone, start);
    return MPI_SUCCESS;
}

int wait_all(const char* name, int count, MPI_Request* array, MPI_Status* statuses,
             const std::function<int(int)>& ordinary) {
    int code = MPI_SUCCESS;
    std::vector<int> others;
    for (int i = 0; i < count; ++i) {
        const auto waited = take(array[i]);
        if (waited == nullptr) {
            others.push_back(i);
            continue;
        }
        real::Request_free(&array[i]);
        Communicator& comm = *waited->comm;
        const std::scoped_lock lock(comm.mutex);
        if (!comm.direct()) {  // when it was freed, pending messages were launched
            if (!waited->launched)
                code = error::raise(Owner(), MPI_ERR_REQUEST,
                                    fmt::format("{}: the request's communicator has been freed", name));
            continue;
        }
        std::string failure = comm.look_at_capture();
        if (failure.empty())
            failure = comm.trouble();
        if (failure.empty() && !waited->launched)
            failure = launch(comm, nullptr);
        if (failure.empty() && !waited->launched && !waited->with_nobody())
            failure =
                fmt::format("rank {} receives from itself and has sent nothing: it would wait for ever", comm.rank);
        if (!failure.empty())
            code = failed(waited->call, comm, fmt::format("in {}: {}", name, failure));
        else if (statuses != MPI_STATUSES_IGNORE)
            fill(*waited, &statuses[i]);
    }
    for (const int i : others)
        if (const int other = ordinary(i); other != MPI_SUCCESS)
            code = other;
    return code;
}

}  // namespace swy::stream
