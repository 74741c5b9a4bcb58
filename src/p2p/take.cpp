// MPI's point-to-point calls, made of sends and receives of one operand.
#include <algorithm>
#include <climits>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datatype/layout.hpp"
#include "datatype/prefix.hpp"
#include "datatype/quick.hpp"
#include "error/error.hpp"
#include "p2p/begin.hpp"
#include "p2p/exchange.hpp"
#include "p2p/plain.hpp"
#include "p2p/point_to_point.hpp"
#include "p2p/probe.hpp"
#include "p2p/receive.hpp"
#include "p2p/refused.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "route/depth.hpp"

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
    const Ledger ledger;
    // MPI calls none of its functions inside of these; the program's error handler may.
    const route::Outside as_from_program;
    const int rc = real(call);
    if (operand != nullptr && operand->count > 0)
        ledger.close_call(call.id, static_cast<std::size_t>(operand->count) * datatype::size_of(operand->type));
    return rc;
}

// Both directions of one call: done when both are, with the receive's status.
class Both final : public request::Operation {
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

  private:
    const std::shared_ptr<Operation> send_, receive_;
};

Begun both(const Call& call, const Begun& send, const Begun& receive) {
    auto two = std::make_shared<Both>(call.id, call.owner.comm, send.operation, receive.operation);
    const request::Hold hold;
    request::add(two);
    return {two, MPI_SUCCESS};
}

// The receive is posted first: the peer may send what this rank's send waits for.
Begun begin_exchange(const Call& call) {
    const Matching& m = *call.matching;
    const Begun receive = begin_receive(call, call.operands[1], m.source, m.receive_tag);
    if (receive.operation == nullptr)
        return receive;
    const Begun send = begin_send(call, call.operands[0], m.dest, m.send_tag, Mode::kStandard);
    if (send.operation == nullptr) {  // MPI has refused its arguments
        const request::Hold hold;
        receive.operation->cancel();
        return send;
    }
    return both(call, send, receive);
}

Begun begin_replace(const Call& call) {
    const Matching& m = *call.matching;
    const Begun send = begin_send_of_copy(call, call.operands[0], m.dest, m.send_tag);
    if (send.operation == nullptr)
        return send;
    const Begun receive = begin_receive(call, call.operands[0], m.source, m.receive_tag);
    return receive.operation == nullptr ? receive : both(call, send, receive);
}

Begun begin(const Row& row, const Call& call) {
    const Matching& m = *call.matching;
    switch (row.act) {
        case Act::kSend:
            return begin_send(call, call.operands[0], m.dest, m.send_tag, row.mode);
        case Act::kReceive:
            return begin_receive(call, call.operands[0], m.source, m.receive_tag);
        case Act::kMatchedReceive:
            return begin_receive(call, call.operands[0], m.message);
        case Act::kExchange:
            return begin_exchange(call);
        default:
            return begin_replace(call);
    }
}

// A persistent call's arguments, kept from its making to its freeing. The type may be freed by the program meanwhile.
struct Standing {
    Operand operand;
    Matching matching;
    Call call;
    MPI_Datatype own = MPI_DATATYPE_NULL;

    explicit Standing(const Call& from) : operand(from.operands[0]), matching(*from.matching), call(from) {
        if (datatype::predefined_size(operand.type) == 0 && operand.type != MPI_DATATYPE_NULL &&
            real::Type_dup(operand.type, &own) == MPI_SUCCESS)
            operand.type = own;
        call.operands = {&operand, 1};
        call.matching = &matching;
    }
    ~Standing() {
        int down = 0;
        real::Finalized(&down);
        if (own != MPI_DATATYPE_NULL && !down)
            real::Type_free(&own);
    }
    Standing(const Standing&) = delete;
    Standing& operator=(const Standing&) = delete;
};

int persistent(const Row& row, const Call& call) {
    auto standing = std::make_shared<Standing>(call);
    const auto start = [row, standing](int& code) {
        Begun begun = begin(row, standing->call);
        code = begun.code;
        return begun.operation;
    };
    return request::hand_out_persistent(call.id, call.owner.comm, start, call.matching->request);
}

request::HostReceive watched(const Call& call) {
    const Operand& operand = call.operands[0];
    request::HostReceive receive;
    receive.address = operand.address;
    receive.count = static_cast<std::size_t>(operand.count);
    receive.bytes = receive.count * datatype::size_of(operand.type);
    receive.layout = layout_with_gaps(operand.type);
    receive.comm = call.owner.comm;
    receive.call = call.id;
    return receive;
}

// A receive into host memory that is too small for any message that has an envelope: MPI's own, looked after.
int small_host_receive(const Row& row, const Call& call, Real real) {
    const Operand& operand = call.operands[0];
    const bool can_meet =
        envelopes && operand.count > 0 && operand.type != MPI_DATATYPE_NULL && call.matching->source != MPI_PROC_NULL;
    if (row.form == Form::kBlocking) {
        MPI_Status own;
        const Matching& m = *call.matching;
        MPI_Status* seen = m.status == MPI_STATUS_IGNORE ? &own : m.status;
        const Ledger ledger;
        const route::Outside as_from_program;
        const int rc = real::Recv(operand.address, static_cast<int>(operand.count), operand.type, m.source,
                                  m.receive_tag, call.owner.comm, seen);
        if (rc == MPI_SUCCESS)
            ledger.close_call(call.id, seen->_ucount);
        return can_meet && seen->_ucount == kEnvelopeBytes ? received_on_host(call, rc, *seen) : rc;
    }
    const int rc = host(call, real);
    if (rc == MPI_SUCCESS && can_meet)
        request::watch(*call.matching->request, watched(call), row.form == Form::kPersistent);
    return rc;
}

bool stays_with_mpi(const Row& row, const Call& call) {
    if (row.act == Act::kSend)
        return !on_device(call, call.operands[0]) && !device::on_device(call.operands[0].address);
    return std::none_of(call.operands.begin(), call.operands.end(),
                        [&](const Operand& operand) { return needs_operation(call, operand); });
}

int by_operation(const Row& row, const Call& call) {
    const Begun begun = begin(row, call);
    if (begun.operation == nullptr)
        return begun.code;
    if (row.form == Form::kNonBlocking)
        return request::hand_out(begun.operation, call.matching->request);
    request::wait_for(*begun.operation);
    return settle(*begun.operation, call.matching->status);
}

}  // namespace

int take(const Call& call, Real real) {
    const Row& row = row_of(call.id);
    if (row.act == Act::kProbe || row.act == Act::kMatchedProbe)
        return !envelopes || (!call.matching->found && refused(call))
                   ? left_to_mpi(call, real)
                   : probe(call.owner.comm, *call.matching, row.act == Act::kMatchedProbe);
    const bool none_kept = kept.load(std::memory_order_relaxed) == 0;
    if (stays_with_mpi(row, call)) {
        if (row.act == Act::kSend)
            return host(call, real);
        const bool plain_receive = row.act == Act::kReceive && call.operands[0].count <= INT_MAX;
        if (none_kept && plain_receive)
            return small_host_receive(row, call, real);
        if (!envelopes)
            return host(call, real);
    }
    if (refused(call)) {
        const int rc = left_to_mpi(call, real);
        if (rc != MPI_SUCCESS || row.form != Form::kPersistent)
            return rc;
        // Open MPI takes types that are not committed in MPI_Ssend_init and its like.
        real::Request_free(call.matching->request);
    }
    if (!request::engine_runs() && row.form != Form::kBlocking)
        return error::raise(call, MPI_ERR_OTHER,
                            std::string(name(call.id)) +
                                ": a buffer is device memory, and non-blocking calls on device memory need an MPI that "
                                "exports opal_progress_register: use Open MPI 4.1 or newer, or a blocking call");
    return row.form == Form::kPersistent ? persistent(row, call) : by_operation(row, call);
}

int received_on_host(const Call& call, int code, MPI_Status& status) {
    const Operand& operand = call.operands.back();
    const auto layout = layout_with_gaps(operand.type);
    const std::size_t capacity = static_cast<std::size_t>(operand.count) * datatype::size_of(operand.type);
    if (capacity < kEnvelopeBytes) {
        request::HostReceive receive{
            operand.address, static_cast<std::size_t>(operand.count), capacity, layout, call.owner.comm, call.id};
        const request::Hold hold;
        envelope_left(receive, status, false);
        return code;  // MPI has raised its error
    }
    const auto envelope = take_envelope(layout.get(), operand.address, static_cast<std::size_t>(operand.count));
    if (!envelope)
        return code;
    auto receive = std::make_shared<Receive>(call.id, call.owner.comm, payload_of(call, operand));
    {
        const request::Hold hold;
        receive->adopt(*envelope, status);
        request::add(receive);
    }
    request::wait_for(*receive);
    return settle(*receive, &status);
}

int envelope_left(const request::HostReceive& receive, MPI_Status& status, bool ahead) {
    if (receive.bytes < kEnvelopeBytes) {
        std::vector<std::byte> begin(receive.bytes);
        if (receive.layout != nullptr)
            datatype::first_bytes(*receive.layout, receive.address, receive.count, begin);
        else
            std::copy_n(static_cast<const std::byte*>(receive.address), begin.size(), begin.begin());
        if (comm::State* state = comm::of(receive.comm))
            release_sender(*state, status.MPI_SOURCE, status.MPI_TAG, begin);
        return MPI_ERR_TRUNCATE;
    }
    const auto envelope = ahead ? envelope_in(receive.layout.get(), receive.address, receive.count)
                                : take_envelope(receive.layout.get(), receive.address, receive.count);
    if (!envelope)
        return MPI_SUCCESS;
    const Control nothing{.word = Word::kClear, .how = How::kNothing, .id = envelope->id, .bytes = envelope->bytes};
    send_control(static_cast<int>(envelope->sender), nothing);
    real::Status_set_elements_x(&status, MPI_BYTE, static_cast<MPI_Count>(envelope->bytes));
    return MPI_ERR_TRUNCATE;
}

}  // namespace swy::p2p
