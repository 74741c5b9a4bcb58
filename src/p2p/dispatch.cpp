// MPI's point-to-point calls, made of sends and receives of one operand.
#include <algorithm>
#include <climits>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "call/depth.hpp"
#include "comm/state.hpp"
#include "datatype/kept_type.hpp"
#include "datatype/layout.hpp"
#include "datatype/prefix.hpp"
#include "datatype/quick.hpp"
#include "error/error.hpp"
#include "error/unless_thrown.hpp"
#include "fastpath/message.hpp"
#include "p2p/invalid_arguments.hpp"
#include "p2p/point_to_point.hpp"
#include "p2p/probe.hpp"
#include "p2p/probed_messages.hpp"
#include "p2p/receive.hpp"
#include "p2p/service.hpp"
#include "p2p/start.hpp"
#include "p2p/watched.hpp"
#include "progress/engine.hpp"
#include "real.hpp"
#include "request/handle.hpp"
#include "request/receive_buffers.hpp"

namespace swy::p2p {
namespace {

enum class Act : std::uint8_t { kSend, kReceive, kMatchedReceive, kExchange, kReplace, kProbe, kMatchedProbe };
enum class Form : std::uint8_t { kBlocking, kNonBlocking, kPersistent };

struct Row {
    CallId id;
    Act act;
    Form form = Form::kBlocking;
    Mode mode = Mode::kStandard;
};

constexpr Row kRows[] = {
    {CallId::kSend, Act::kSend},
    {CallId::kSsend, Act::kSend, Form::kBlocking, Mode::kSynchronous},
    {CallId::kRsend, Act::kSend, Form::kBlocking, Mode::kReady},
    {CallId::kBsend, Act::kSend, Form::kBlocking, Mode::kBuffered},
    {CallId::kRecv, Act::kReceive},
    {CallId::kMrecv, Act::kMatchedReceive},
    {CallId::kSendrecv, Act::kExchange},
    {CallId::kSendrecvReplace, Act::kReplace},
    {CallId::kProbe, Act::kProbe},
    {CallId::kIprobe, Act::kProbe},
    {CallId::kMprobe, Act::kMatchedProbe},
    {CallId::kImprobe, Act::kMatchedProbe},
    {CallId::kIsend, Act::kSend, Form::kNonBlocking},
    {CallId::kIssend, Act::kSend, Form::kNonBlocking, Mode::kSynchronous},
    {CallId::kIrsend, Act::kSend, Form::kNonBlocking, Mode::kReady},
    {CallId::kIbsend, Act::kSend, Form::kNonBlocking, Mode::kBuffered},
    {CallId::kIrecv, Act::kReceive, Form::kNonBlocking},
    {CallId::kImrecv, Act::kMatchedReceive, Form::kNonBlocking},
    {CallId::kIsendrecv, Act::kExchange, Form::kNonBlocking},
    {CallId::kIsendrecvReplace, Act::kReplace, Form::kNonBlocking},
    {CallId::kSendInit, Act::kSend, Form::kPersistent},
    {CallId::kSsendInit, Act::kSend, Form::kPersistent, Mode::kSynchronous},
    {CallId::kRsendInit, Act::kSend, Form::kPersistent, Mode::kReady},
    {CallId::kBsendInit, Act::kSend, Form::kPersistent, Mode::kBuffered},
    {CallId::kXSendMulti, Act::kSend},
    {CallId::kXRecvMulti, Act::kReceive},
    {CallId::kXIsendMulti, Act::kSend, Form::kNonBlocking},
    {CallId::kXIrecvMulti, Act::kReceive, Form::kNonBlocking},
    {CallId::kRecvInit, Act::kReceive, Form::kPersistent},
};

const Row& row_of(CallId id) {
    return *std::find_if(std::begin(kRows), std::end(kRows) - 1, [&](const Row& row) { return row.id == plain(id); });
}

int host(const Call& call, Real real) {
    const Operand* operand = call.operands.empty() ? nullptr : &call.operands.back();
    report::OpRecord record(call.id);
    // MPI calls none of its own MPI functions inside these; the program's error handler may call some.
    const call::Outside as_from_program;
    const int rc = real(call);
    if (operand != nullptr && operand->count > 0)
        record.close_call(static_cast<std::size_t>(operand->count) * datatype::size_of(operand->type));
    return rc;
}

// Both directions of one call: complete when both are, with the receive's status.
class Both final : public progress::Operation {
  public:
    Both(CallId call, MPI_Comm comm, std::shared_ptr<Operation> send, std::shared_ptr<Operation> receive)
        : Operation(call, comm), send_(std::move(send)), receive_(std::move(receive)) {}

    bool step() override {
        if (!send_->done() || !receive_->done())
            return false;
        finish(receive_->outcome().mpi_class == MPI_SUCCESS && send_->outcome().mpi_class != MPI_SUCCESS
                   ? send_->outcome()
                   : receive_->outcome());
        return true;
    }
    std::string describe() const override { return (receive_->done() ? send_ : receive_)->describe(); }

  private:
    const std::shared_ptr<Operation> send_, receive_;
};

Started both(const Call& call, const Started& send, const Started& receive) {
    auto two = std::make_shared<Both>(call.id, call.owner.comm, send.operation, receive.operation);
    const progress::Hold hold;
    progress::add(two);
    return {two, MPI_SUCCESS};
}

// The receive is posted first: the peer may send what this rank's send waits for.
Started begin_exchange(const Call& call) {
    const Matching& m = *call.matching;
    const Started receive = start_receive(call, call.operands[1], m.source, m.receive_tag);
    if (receive.operation == nullptr)
        return receive;
    const Started send = start_send(call, call.operands[0], m.dest, m.send_tag, Mode::kStandard);
    if (send.operation == nullptr) {  // MPI has rejected its arguments
        const progress::Hold hold;
        receive.operation->cancel();
        return send;
    }
    return both(call, send, receive);
}

Started begin_replace(const Call& call) {
    const Matching& m = *call.matching;
    const Started send = start_send_of_copy(call, call.operands[0], m.dest, m.send_tag);
    if (send.operation == nullptr)
        return send;
    const Started receive = start_receive(call, call.operands[0], m.source, m.receive_tag);
    return receive.operation == nullptr ? receive : both(call, send, receive);
}

Started begin(const Row& row, const Call& call) {
    const Matching& m = *call.matching;
    switch (row.act) {
        case Act::kSend:
            return start_send(call, call.operands[0], m.dest, m.send_tag, row.mode);
        case Act::kReceive:
            return start_receive(call, call.operands[0], m.source, m.receive_tag);
        case Act::kMatchedReceive:
            return start_receive(call, call.operands[0], m.message);
        case Act::kExchange:
            return begin_exchange(call);
        default:
            return begin_replace(call);
    }
}

// The arguments of a persistent call, kept from its *_init call to its MPI_Request_free.
struct PersistentCall {
    Operand operand;
    Matching matching;
    Call call;
    datatype::KeptType type;

    explicit PersistentCall(const Call& from)
        : operand(from.operands[0]), matching(*from.matching), call(from), type(operand.type) {
        operand.type = type.get();
        call.operands = {&operand, 1};
        call.matching = &matching;
    }
    PersistentCall(const PersistentCall&) = delete;
    PersistentCall& operator=(const PersistentCall&) = delete;
};

int persistent(const Row& row, const Call& call) {
    auto persistent_call = std::make_shared<PersistentCall>(call);
    const auto start = [row, persistent_call](int& code) {
        Started started = begin(row, persistent_call->call);
        code = started.code;
        return started.operation;
    };
    return request::hand_out_persistent(call.id, call.owner.comm, start, call.matching->request);
}

request::HostReceive watched(const Call& call) {
    const Operand& operand = call.operands[0];
    request::HostReceive receive;
    receive.address = operand.address;
    receive.count = static_cast<std::size_t>(operand.count);
    receive.bytes = receive.count * datatype::size_of(operand.type);
    receive.layout = fastpath::layout_with_gaps(operand.type);
    receive.comm = call.owner.comm;
    receive.call = call.id;
    return receive;
}

bool can_meet_envelope(const Call& call) {
    const Operand& operand = call.operands.back();
    return fastpath::envelopes && operand.count >= 0 && operand.type != MPI_DATATYPE_NULL &&
           call.matching->source != MPI_PROC_NULL;
}

// Watches a receive of MPI's own that does not block and has been posted.
void watch(const Call& call) {
    request::HostReceive receive = watched(call);
    if (!fastpath::is_unwatched(receive.bytes))
        request::watch(*call.matching->request, std::move(receive));
}

// Posts the receive of the last operand to MPI where there may be probed messages. Returns false when a probed message
// matches it. Both happen in one hold of the lock, see probe.hpp. `code` is MPI's.
bool post_unless_probed(const Call& call, MPI_Request& request, int& code) {
    const Operand& operand = call.operands.back();
    const Matching& m = *call.matching;
    const progress::Hold hold;
    if (find_probed(call.owner.comm, m.source, m.receive_tag) != nullptr)
        return false;
    code = real::Irecv(operand.address, static_cast<int>(operand.count), operand.type, m.source, m.receive_tag,
                       call.owner.comm, &request);
    return true;
}

// As post_unless_probed(), for MPI_Start.
bool start_unless_probed(const Call& call, MPI_Request* request, int& code) {
    std::optional<progress::Hold> hold;
    if (!fastpath::none_probed()) {
        hold.emplace();
        if (find_probed(call.owner.comm, call.matching->source, call.matching->receive_tag) != nullptr)
            return false;
    }
    code = real::Start(request);
    return true;
}

// Returns what starts a persistent receive of MPI's own: MPI starts it, unless a probed message matches it (probe.hpp).
request::HostStarter starter_of(const Row& row, const Call& call) {
    return [row, persistent_call = std::make_shared<PersistentCall>(call)](MPI_Request* request, int& code) {
        if (start_unless_probed(persistent_call->call, request, code))
            return std::shared_ptr<progress::Operation>();
        Started started = begin(row, persistent_call->call);
        code = started.code;
        return started.operation;
    };
}

// Receives into host memory by `real`, which blocks and fills the status, and completes the transfer when the message
// may be an envelope.
template <typename Receiving>
int receive_on_host(const Call& call, report::OpRecord& record, Receiving real) {
    const bool can_meet = can_meet_envelope(call);
    MPI_Status own;
    MPI_Status* const seen = fastpath::to_see(call.matching->status, own);
    const auto may_be_envelope = [&] { return can_meet && seen->_ucount == call::kEnvelopeBytes; };
    const call::Outside as_from_program;
    const int rc = error::unless_thrown([&] { return real(seen); },
                                        [&] {
                                            if (may_be_envelope())
                                                received_on_host(call, MPI_ERR_TRUNCATE, *seen);
                                        });
    if (rc == MPI_SUCCESS)
        record.close_call(seen->_ucount);
    return may_be_envelope() ? received_on_host(call, rc, *seen) : rc;
}

// A receive into host memory that is too small for any message that has an envelope: MPI's own receive, watched for an
// envelope.
int small_host_receive(const Row& row, const Call& call, Real real) {
    const Operand& operand = call.operands[0];
    if (row.form == Form::kBlocking) {
        report::OpRecord record(call.id);
        return receive_on_host(call, record, [&](MPI_Status* status) {
            return real::Recv(operand.address, static_cast<int>(operand.count), operand.type, call.matching->source,
                              call.matching->receive_tag, call.owner.comm, status);
        });
    }
    const int rc = host(call, real);
    if (rc != MPI_SUCCESS)
        return rc;
    if (row.form == Form::kPersistent && fastpath::envelopes && call.matching->source != MPI_PROC_NULL)
        request::watch_persistent(*call.matching->request, watched(call), starter_of(row, call));
    else if (can_meet_envelope(call))
        watch(call);
    return rc;
}

// Such a receive, or an MPI_Sendrecv with one, where there may be probed messages. Returns nothing when a probed
// message matches it.
std::optional<int> posted_host_receive(const Row& row, const Call& call) {
    report::OpRecord record(call.id);
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = MPI_SUCCESS;
    if (!post_unless_probed(call, request, rc))
        return std::nullopt;
    if (rc != MPI_SUCCESS)
        return rc;
    if (row.form == Form::kNonBlocking) {
        *call.matching->request = request;
        if (can_meet_envelope(call))
            watch(call);
        return rc;
    }
    if (row.act == Act::kExchange) {
        const Operand& sent = call.operands.front();
        const Matching& m = *call.matching;
        const call::Outside as_from_program;
        rc = real::Send(sent.address, static_cast<int>(sent.count), sent.type, m.dest, m.send_tag, call.owner.comm);
        if (rc != MPI_SUCCESS) {
            real::Cancel(&request);
            real::Request_free(&request);
            return rc;
        }
    }
    return receive_on_host(call, record, [&](MPI_Status* status) { return real::Wait(&request, status); });
}

bool counts_are_ints(const Call& call) {
    return std::all_of(call.operands.begin(), call.operands.end(),
                       [](const Operand& operand) { return operand.count <= INT_MAX; });
}

// A receive without blocking into host memory, of what may be a large message, stays MPI's own too. Not where a report
// is made, which tells when messages have come.
bool is_large_host_receive(const Row& row, const Call& call) {
    const Operand& operand = call.operands[0];
    return request::one_thread && !report::covers_host_calls && row.act == Act::kReceive &&
           row.form == Form::kNonBlocking && can_meet_envelope(call) && counts_are_ints(call) &&
           static_cast<std::size_t>(operand.count) * datatype::size_of(operand.type) >= fastpath::limit &&
           !on_device(call, operand) && !device::on_device(operand.address);
}

// Returns nothing when a probed message matches the receive, or its buffer is another's
// (p2p/shared_receive_buffer.hpp).
std::optional<int> large_host_receive(const Call& call) {
    request::HostReceive receive = watched(call);
    receive.buffer = host_payload(receive).first_byte();
    const bool waits = request::buffers::enter_to_wait(receive.buffer, nullptr);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    const bool posted = waits && post_unless_probed(call, request, code);
    if (!posted || code != MPI_SUCCESS) {
        request::buffers::leave(receive.buffer, waits);
        return posted ? std::optional(code) : std::nullopt;
    }
    *call.matching->request = request;
    comm::of(call.owner.comm);  // so that an operation can tell later whether it still exists
    request::watch(request, std::move(receive));
    return code;
}

bool is_given_by_probe(const Matching& matching) {
    const progress::Hold hold;
    return is_given(*matching.message);
}

bool stays_with_mpi(const Row& row, const Call& call) {
    if (row.act == Act::kSend)
        return !on_device(call, call.operands[0]) && !device::on_device(call.operands[0].address);
    return std::none_of(call.operands.begin(), call.operands.end(),
                        [&](const Operand& operand) { return needs_operation(call, operand); });
}

int by_operation(const Row& row, const Call& call) {
    const Started started = begin(row, call);
    if (started.operation == nullptr)
        return started.code;
    if (row.form == Form::kNonBlocking)
        return request::hand_out(started.operation, call.matching->request);
    progress::wait_for(*started.operation);
    return publish_status(*started.operation, call.matching->status);
}

}  // namespace

int dispatch(const Call& call, Real real) {
    const Row& row = row_of(call.id);
    if (row.act == Act::kProbe || row.act == Act::kMatchedProbe)
        return !fastpath::envelopes || (!call.matching->found && has_invalid_argument(call))
                   ? left_to_mpi(call, real)
                   : probe(call.owner.comm, *call.matching, row.act == Act::kMatchedProbe);
    const bool on_host = stays_with_mpi(row, call);
    const bool plain_receive = on_host && row.act == Act::kReceive && counts_are_ints(call);
    const bool real_send =
        row.act == Act::kSend && (row.mode != Mode::kSynchronous || !is_as_long_as_envelope(call.operands[0]));
    if (on_host && (real_send || (!fastpath::envelopes && !plain_receive)))
        return host(call, real);
    if (plain_receive && (fastpath::none_probed() || row.form == Form::kPersistent))
        return small_host_receive(row, call, real);
    if (has_invalid_argument(call)) {
        const int rc = left_to_mpi(call, real);
        if (rc != MPI_SUCCESS || row.form != Form::kPersistent)
            return rc;
        // Open MPI accepts types that are not committed in MPI_Ssend_init and similar calls.
        real::Request_free(call.matching->request);
    }
    if (on_host && row.act == Act::kMatchedReceive && !is_given_by_probe(*call.matching))
        return host(call, real);
    if (is_large_host_receive(row, call))
        if (const std::optional<int> code = large_host_receive(call))
            return *code;
    if (plain_receive || (on_host && row.act == Act::kExchange && row.form == Form::kBlocking && counts_are_ints(call)))
        if (const std::optional<int> code = posted_host_receive(row, call))
            return *code;
    return row.form == Form::kPersistent ? persistent(row, call) : by_operation(row, call);
}

int received_on_host(const Call& call, int code, MPI_Status& status) {
    const Operand& operand = call.operands.back();
    const auto count = static_cast<std::size_t>(operand.count);
    const auto layout = fastpath::layout_with_gaps(operand.type);
    const std::size_t room = count * datatype::size_of(operand.type);
    if (room < call::kEnvelopeBytes) {
        if (clear_truncated_envelope(layout.get(), operand.address, count, room)) {
            const progress::Hold hold;
            release_sender(call.owner.comm, status.MPI_SOURCE, status.MPI_TAG);
        }
        return code;  // MPI has raised its error
    }
    const auto envelope = take_envelope(layout.get(), operand.address, count);
    if (!envelope)
        return code;
    auto receive = std::make_shared<Receive>(call.id, call.owner.comm, pack::payload_of(call, operand));
    {
        const progress::Hold hold;
        receive->adopt(*envelope, status);
        progress::add(receive);
    }
    progress::wait_for(*receive);
    return publish_status(*receive, &status);
}

}  // namespace swy::p2p
