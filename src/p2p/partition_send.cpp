// The sender of a partitioned message.
#include <algorithm>
#include <string>

#include "comm/world.hpp"
#include "fastpath/message.hpp"
#include "p2p/control.hpp"
#include "p2p/partition_messages.hpp"
#include "p2p/start.hpp"

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
        announcement.key = {order_->number(), rank_, arguments_.peer, arguments_.tag};
        announcement.id = static_cast<std::uint64_t>(first_tag_);
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

}  // namespace

std::shared_ptr<Side> sending_side(CallId call, const Arguments& arguments) {
    return std::make_shared<Outgoing>(call, arguments);
}

}  // namespace swy::p2p::partitioned

#endif
