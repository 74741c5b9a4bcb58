// Partitioned messages as one message for each of the sender's partitions, or for several small ones. MPI matches the
// k-th MPI_Psend_init of a rank with the k-th MPI_Precv_init for it of the same communicator and tag (MPI 4.0
// section 4.2.1: there are no wildcards), so the sender announces its partitions when it makes its request, and the
// receiver posts receives for them in each of its starts.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "call/comm_name.hpp"
#include "call/job.hpp"
#include "comm/launch_order.hpp"
#include "comm/where.hpp"
#include "comm/world.hpp"
#include "datatype/kept_type.hpp"
#include "datatype/layout.hpp"
#include "datatype/quick.hpp"
#include "error/error.hpp"
#include "fastpath/message.hpp"
#include "p2p/bounce_buffer.hpp"
#include "p2p/control.hpp"
#include "p2p/invalid_arguments.hpp"
#include "p2p/limited_transfer.hpp"
#include "p2p/partitioned_side.hpp"
#include "p2p/service.hpp"
#include "p2p/start.hpp"
#include "pack/payload.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "staging/pipeline.hpp"

#if OMPI_MAJOR_VERSION >= 5

namespace swy::p2p::partitioned {
namespace {

// Tags on a private communicator: partitions have those from here on, launch tokens one below.
constexpr int kFirstTag = 16;

int greatest_tag(MPI_Comm comm) {
    int *greatest = nullptr, found = 0;
    real::Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&greatest), &found);
    return found != 0 ? *greatest : 32767;  // MPI 4.0 section 9.1.2
}

// Which messages match: the number of the communicator, and what both sides call the rest.
using Match = std::tuple<std::uint64_t, int, int, int>;
Match match_of(std::uint64_t number, const MatchKey& key) {
    return {number, key.source, key.dest, key.tag};
}

// What a sender announces.
struct Announced {
    int messages = 0;
    std::size_t bytes = 0;  // of each, but for the last one
    std::size_t all = 0;    // of all together
    int first_tag = 0;      // that of the first one; the others' follow it
};

class Incoming;

// Announcements without their receiver, and receivers without their announcement. Under the engine's lock.
struct Unmatched {
    std::map<Match, std::deque<Announced>> announced;
    std::map<Match, std::deque<std::weak_ptr<Incoming>>> incoming;
};
Unmatched& unmatched() {
    static auto* all = new Unmatched;  // not destroyed at exit
    return *all;
}

// What both sides have.
class Partitions : public Side {
  public:
    Partitions(CallId call, const Arguments& arguments)
        : call_(call),
          arguments_(arguments),
          type_(arguments.partition.type),
          order_(comm::of(arguments.comm)->order),
          rank_(comm::of(arguments.comm)->rank) {
        arguments_.partition.type = type_.get();
        layout_ = datatype::layout_of(type_.get());
        comm::of(private_comm());  // messages find it under the lock
        real::Comm_set_name(private_comm(), call::comm_name(arguments.comm).c_str());  // for what is said of messages
        bytes_ = static_cast<std::size_t>(arguments.partition.count) * layout_->size;
    }

    CallId call() const { return call_; }
    const Arguments& arguments() const { return arguments_; }
    MPI_Comm comm() const { return arguments_.comm; }

    // Advances `next` to the first message that is not complete; under the lock. Returns false where one has failed:
    // `failure` is its outcome then.
    bool look(std::size_t& next, progress::Outcome& failure) const {
        while (next < messages_.size() && messages_[next] != nullptr && messages_[next]->done()) {
            failure = messages_[next]->outcome();
            if (failure.mpi_class != MPI_SUCCESS)
                return false;
            ++next;
        }
        return true;
    }
    std::size_t messages() const { return messages_.size(); }
    std::size_t all_bytes() const { return static_cast<std::size_t>(arguments_.partitions) * bytes_; }

  protected:
    bool valid(int partition) const { return partition >= 0 && partition < arguments_.partitions; }
    int invalid(const char* call, int partition) const {
        return error::raise(Owner(comm()), MPI_ERR_ARG,
                            fmt::format("{}: the message of {} has {} partitions, {} is none of them", call,
                                        comm::where(call_, comm()), arguments_.partitions, partition));
    }

    MPI_Comm private_comm() const { return order_->private_comm(); }
    // A call on the private communicator with this operand alone.
    Call call_of(const Operand& operand, CallId id) const {
        Call call{.id = id, .owner = Owner(private_comm()), .operands = {&operand, 1}};
        call.root = 0;
        return call;
    }

    const CallId call_;
    Arguments arguments_;
    const datatype::KeptType type_;
    // It outlives the communicator where the program frees that first.
    const std::shared_ptr<comm::LaunchOrder> order_;
    const int rank_;
    std::shared_ptr<const datatype::Layout> layout_;
    std::size_t bytes_ = 0;                                       // of a partition
    std::vector<std::shared_ptr<progress::Operation>> messages_;  // of this start, under the lock
};

class Outgoing final : public Partitions, public std::enable_shared_from_this<Outgoing> {
  public:
    // Partitions that are too small for NCCL go together, as those of MPI do.
    Outgoing(CallId call, const Arguments& arguments)
        : Partitions(call, arguments), together_(std::max<std::size_t>((fastpath::limit + bytes_ - 1) / bytes_, 1)) {
        const auto partitions = static_cast<std::size_t>(arguments.partitions);
        together_ = std::min(together_, partitions);
        messages_.resize((partitions + together_ - 1) / together_);
        ready_.resize(partitions);
        left_.resize(messages_.size());
    }

    int make() override {
        const auto needed = static_cast<int>(messages_.size());
        const int room = greatest_tag(private_comm()) - kFirstTag + 1;
        if (needed > room)
            return error::raise(Owner(comm()), MPI_ERR_ARG,
                                fmt::format("{}: {} partitions: this Open MPI has tags for {} alone",
                                            comm::where(call_, comm()), arguments_.partitions, room));
        const progress::Hold hold;
        static int next = 0;
        if (next > room - needed)
            next = 0;  // those of messages long gone
        first_tag_ = kFirstTag + std::exchange(next, next + needed);
        Control announcement{.type = MessageType::kPartitions};
        announcement.key = {rank_, arguments_.peer, arguments_.tag};
        announcement.id = static_cast<std::uint64_t>(first_tag_);
        announcement.slot = static_cast<std::uint64_t>(order_->number());
        announcement.bytes = all_bytes();
        announcement.parts = messages_.size();
        announcement.part = together_ * bytes_;
        send_control(comm::world_rank(*comm::known(comm()), arguments_.peer), announcement);
        return MPI_SUCCESS;
    }

    std::shared_ptr<progress::Operation> start(int& code) override;

    int ready(int partition) override {
        if (!valid(partition))
            return invalid("MPI_Pready", partition);
        const auto index = static_cast<std::size_t>(partition), message = index / together_;
        {
            const progress::Hold hold;
            if (ready_[index])
                return MPI_SUCCESS;
            ready_[index] = true;
            if (--left_[message] != 0)
                return MPI_SUCCESS;
        }
        Operand operand = arguments_.partition;
        operand.address = static_cast<std::byte*>(operand.address) +
                          static_cast<MPI_Aint>(message * together_) * (operand.count * layout_->extent);
        operand.count *= static_cast<MPI_Count>(partitions_in(message));
        const Started sent = start_send(call_of(operand, call_), operand, arguments_.peer,
                                        first_tag_ + static_cast<int>(message), Mode::kStandard);
        const progress::Hold hold;
        messages_[message] = sent.operation;
        if (sent.operation == nullptr)
            failure_ = error::text_of(sent.code);
        return MPI_SUCCESS;
    }

    int arrived(int partition, int*) override { return invalid("MPI_Parrived", partition); }

    // Why a message could not be sent, which the request's completion says. Under the lock.
    const std::string& failure() const { return failure_; }

  private:
    std::size_t partitions_in(std::size_t message) const {
        return std::min(together_, ready_.size() - message * together_);
    }

    std::size_t together_;  // partitions in a message
    int first_tag_ = 0;
    std::string failure_;
    std::vector<bool> ready_;
    std::vector<std::size_t> left_;  // of a message: partitions that are not ready
};

class Incoming final : public Partitions, public std::enable_shared_from_this<Incoming> {
  public:
    using Partitions::Partitions;

    int make() override {
        const Match match =
            match_of(static_cast<std::uint64_t>(order_->number()), {arguments_.peer, rank_, arguments_.tag});
        comm::State* const state = comm::of(comm());
        const progress::Hold hold;
        in_world_ = comm::world_rank(*state, arguments_.peer);
        std::deque<Announced>& there = unmatched().announced[match];
        if (there.empty()) {
            unmatched().incoming[match].push_back(weak_from_this());
        } else {
            announced(there.front());
            there.pop_front();
        }
        return MPI_SUCCESS;
    }

    // Under the lock.
    void announced(const Announced& sender) { sender_ = sender; }
    bool is_announced() const { return sender_.messages != 0; }
    int sender() const { return in_world_; }  // in MPI_COMM_WORLD

    std::shared_ptr<progress::Operation> start(int& code) override;

    int ready(int partition) override { return invalid("MPI_Pready", partition); }

    int arrived(int partition, int* flag) override {
        if (!valid(partition))
            return invalid("MPI_Parrived", partition);
        const auto look = [&] {
            const progress::Hold hold;
            return over_ || is_here(static_cast<std::size_t>(partition));
        };
        *flag = look() ? 1 : 0;
        if (*flag == 0) {
            progress::progress();
            *flag = look() ? 1 : 0;
        }
        return MPI_SUCCESS;
    }

    // Posts the receives of a start; under the lock. Returns MPI's code.
    int post();
    bool is_posted() const { return posted_; }
    // Has the sender more or less than this side takes?
    std::string mismatch() const {
        return sender_.all == all_bytes()
                   ? std::string{}
                   : fmt::format("{} bytes were sent, and {} partitions of {} bytes are received", sender_.all,
                                 arguments_.partitions, bytes_);
    }
    // The copy to the program's buffer that follows; null where messages were received into it.
    std::unique_ptr<staging::Transfer> last_copy();
    void is_over() { over_ = true; }

  private:
    // The program's whole buffer.
    Operand whole() const {
        Operand all = arguments_.partition;
        all.count *= arguments_.partitions;
        return all;
    }
    // The place of one of the sender's messages.
    Operand place_of(std::size_t message) const {
        const std::size_t offset = message * sender_.bytes;
        const std::size_t bytes = std::min(sender_.bytes, sender_.all - offset);
        Operand place = arguments_.partition;
        auto* const memory = static_cast<std::byte*>(place.address);
        if (aside_ == nullptr && !layout_->contiguous) {
            place.address = memory + static_cast<MPI_Aint>(offset / layout_->size) * layout_->extent;
            place.count = static_cast<MPI_Count>(bytes / layout_->size);
            return place;
        }
        place.address = aside_ != nullptr ? aside_->data() + offset : memory + layout_->true_lb + offset;
        place.count = static_cast<MPI_Count>(bytes);
        place.type = MPI_BYTE;
        return place;
    }
    bool is_here(std::size_t partition) const {
        if (!posted_ || aside_ != nullptr)
            return false;
        const std::size_t first = partition * bytes_ / sender_.bytes;
        const std::size_t last = ((partition + 1) * bytes_ - 1) / sender_.bytes;
        for (std::size_t i = first; i <= last; ++i)
            if (messages_[i] == nullptr || !messages_[i]->done())
                return false;
        return true;
    }

    int in_world_ = -1;
    Announced sender_;
    bool posted_ = false;
    bool over_ = true;
    // Host memory for all of it, where the program's buffer takes another amount, or the sender's partitions end within
    // its elements.
    std::shared_ptr<BounceBuffer> aside_;
};

// From MPI_Start until all partitions have been sent.
class Sending final : public progress::Operation {
  public:
    explicit Sending(std::shared_ptr<Outgoing> side) : Operation(side->call(), side->comm()), side_(std::move(side)) {}

    std::string describe() const override {
        return fmt::format("{}: {} of its {} messages to rank {} have been sent", comm::where(call(), comm()), next_,
                           side_->messages(), side_->arguments().peer);
    }

    bool step() override {
        const std::size_t before = next_;
        progress::Outcome outcome;
        if (!side_->failure().empty())
            fail(MPI_ERR_OTHER,
                 fmt::format("{}: a partition could not be sent: {}", comm::where(call(), comm()), side_->failure()));
        else if (!side_->look(next_, outcome))
            fail(outcome.mpi_class, outcome.text);
        else if (next_ == side_->messages())
            finish({});
        return done() || next_ != before;
    }

  private:
    const std::shared_ptr<Outgoing> side_;
    std::size_t next_ = 0;
};

// From MPI_Start until all partitions are in the program's buffer.
class Receiving final : public progress::Operation {
  public:
    explicit Receiving(std::shared_ptr<Incoming> side)
        : Operation(side->call(), side->comm()), side_(std::move(side)) {}

    std::string describe() const override {
        const std::string where = comm::where(call(), comm());
        const int peer = side_->arguments().peer;
        return side_->is_announced() ? fmt::format("{}: {} of its {} messages from rank {} have come", where, next_,
                                                   side_->messages(), peer)
                                     : fmt::format("{}: rank {} has not called MPI_Psend_init for it", where, peer);
    }

    bool step() override {
        if (!side_->is_announced())
            return given_up();
        if (copy_.begun())
            return copied();
        if (!side_->is_posted())
            return post();
        const std::size_t before = next_;
        progress::Outcome outcome;
        if (!side_->look(next_, outcome))
            end(outcome.mpi_class, outcome.text);
        else if (next_ == side_->messages())
            all_here();
        return done() || next_ != before;
    }

  private:
    bool given_up() {
        const std::string why = what_is_lost(comm(), side_->sender(), side_->arguments().peer);
        if (!why.empty())
            end(MPI_ERR_OTHER, fmt::format("{}: {}", comm::where(call(), comm()), why));
        return done();
    }

    bool post() {
        int code = MPI_ERR_NO_MEM;
        try {
            code = side_->post();
        } catch (const std::bad_alloc&) {
        }
        if (code != MPI_SUCCESS)
            end(code == MPI_ERR_NO_MEM ? MPI_ERR_NO_MEM : MPI_ERR_OTHER,
                comm::where(call(), comm()) + (code == MPI_ERR_NO_MEM ? ": no host memory to receive the partitions"
                                                                      : ": MPI posts no receive for a partition"));
        return true;
    }

    void all_here() {
        if (const std::string why = side_->mismatch(); !why.empty())
            return end(MPI_ERR_TRUNCATE, comm::where(call(), comm()) + ": " + why);
        copy_.begin(side_->last_copy());
        if (!copy_.begun())
            end(MPI_SUCCESS, {});
    }

    bool copied() {
        const bool moved = copy_.step();
        if (copy_.under_way())
            return moved;
        if (copy_.failure().empty())
            end(MPI_SUCCESS, {});
        else
            end(MPI_ERR_OTHER, fmt::format("{}: {}", comm::where(call(), comm()), copy_.failure()));
        return true;
    }

    void end(int mpi_class, std::string text) {
        side_->is_over();
        if (mpi_class != MPI_SUCCESS)
            return fail(mpi_class, std::move(text));
        progress::Outcome outcome;
        outcome.source = side_->arguments().peer;
        outcome.tag = side_->arguments().tag;
        outcome.bytes = side_->all_bytes();
        finish(std::move(outcome));
    }

    const std::shared_ptr<Incoming> side_;
    std::size_t next_ = 0;
    LimitedTransfer copy_;
};

std::shared_ptr<progress::Operation> Outgoing::start(int& code) {
    code = MPI_SUCCESS;
    auto sending = std::make_shared<Sending>(shared_from_this());
    const progress::Hold hold;
    std::fill(messages_.begin(), messages_.end(), nullptr);
    std::fill(ready_.begin(), ready_.end(), false);
    for (std::size_t message = 0; message < left_.size(); ++message)
        left_[message] = partitions_in(message);
    failure_.clear();
    progress::add(sending);
    return sending;
}

std::shared_ptr<progress::Operation> Incoming::start(int& code) {
    code = MPI_SUCCESS;
    auto receiving = std::make_shared<Receiving>(shared_from_this());
    const progress::Hold hold;
    posted_ = over_ = false;
    progress::step_at_once(*receiving);
    progress::add(receiving);
    return receiving;
}

int Incoming::post() {
    const bool splits = !layout_->contiguous && sender_.bytes % layout_->size != 0;
    messages_.assign(static_cast<std::size_t>(sender_.messages), nullptr);
    if (aside_ == nullptr && (splits || !mismatch().empty())) {
        auto memory = std::make_shared<BounceBuffer>();
        const Operand all = whole();
        const pack::Payload payload = pack::payload_of(call_of(all, CallId::kIrecv), all);
        if (!memory->acquire(payload.where.context, sender_.all))
            return MPI_ERR_NO_MEM;
        memory->touched(sender_.all);
        aside_ = std::move(memory);
    }
    for (std::size_t i = 0; i < messages_.size(); ++i) {
        const Operand place = place_of(i);
        const Started posted = start_receive_under_lock(call_of(place, call_), place, arguments_.peer,
                                                        sender_.first_tag + static_cast<int>(i));
        if (posted.operation == nullptr)
            return posted.code;
        messages_[i] = posted.operation;
    }
    posted_ = true;
    return MPI_SUCCESS;
}

std::unique_ptr<staging::Transfer> Incoming::last_copy() {
    if (aside_ == nullptr)
        return nullptr;
    const Operand all = whole();
    return staging::unpack(pack::payload_of(call_of(all, CallId::kIrecv), all), all_bytes(), aside_->data(),
                           aside_->page_locked());
}

}  // namespace

bool goes_by_messages(const Arguments& arguments) {
    if (!call::job_agrees || !fastpath::envelopes || arguments.partitions <= 0 || arguments.peer < 0 ||
        arguments.tag < 0 || arguments.partition.count <= 0)
        return false;
    MPI_Request request = MPI_REQUEST_NULL;
    const Matching matching{.dest = arguments.peer,
                            .send_tag = arguments.tag,
                            .source = arguments.peer,
                            .receive_tag = arguments.tag,
                            .request = &request};
    const Call call{.id = CallId::kSendInit,
                    .owner = Owner(arguments.comm),
                    .operands = {&arguments.partition, 1},
                    .root = arguments.peer,
                    .matching = &matching};
    if (has_invalid_argument(call) || datatype::size_of(arguments.partition.type) == 0)
        return false;
    const comm::State* const state = comm::of(arguments.comm);
    return state != nullptr && !state->inter && !state->spans_jobs && state->order != nullptr;
}

std::shared_ptr<Side> by_messages(CallId call, const Arguments& arguments) {
    if (call == CallId::kPsendInit)
        return std::make_shared<Outgoing>(call, arguments);
    return std::make_shared<Incoming>(call, arguments);
}

void announced(const Control& control) {
    const Match match = match_of(control.slot, control.key);
    const Announced sender{static_cast<int>(control.parts), static_cast<std::size_t>(control.part),
                           static_cast<std::size_t>(control.bytes), static_cast<int>(control.id)};
    std::deque<std::weak_ptr<Incoming>>& waiting = unmatched().incoming[match];
    while (!waiting.empty()) {
        const std::shared_ptr<Incoming> first = waiting.front().lock();
        waiting.pop_front();
        if (first != nullptr)
            return first->announced(sender);
    }
    unmatched().announced[match].push_back(sender);
}

}  // namespace swy::p2p::partitioned

#endif
