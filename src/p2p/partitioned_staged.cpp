// Partitioned messages that MPI carries, from and to a copy in host memory: on communicators without a private one.
#include "p2p/partitioned_side.hpp"

#if OMPI_MAJOR_VERSION >= 5

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "comm/state.hpp"
#include "comm/where.hpp"
#include "datatype/kept_type.hpp"
#include "datatype/quick.hpp"
#include "error/error.hpp"
#include "p2p/bounce_buffer.hpp"
#include "p2p/start.hpp"
#include "pack/payload.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "report/op_record.hpp"
#include "request/handle.hpp"
#include "staging/limited_transfer.hpp"
#include "staging/pipeline.hpp"

namespace swy::p2p::partitioned {
namespace {

class Message final : public Side, public std::enable_shared_from_this<Message> {
  public:
    Message(CallId call, const Arguments& arguments)
        : call_(call), arguments_(arguments), type_(arguments.partition.type) {
        Operand& partition = arguments_.partition;
        partition.type = type_.get();
        MPI_Aint lb = 0;
        real::Type_get_extent(partition.type, &lb, &extent_);
        bytes_ = static_cast<std::size_t>(partition.count) * datatype::size_of(partition.type);
        here_.resize(static_cast<std::size_t>(arguments.partitions));
    }
    ~Message() override {
        int down = 0;
        real::Finalized(&down);
        if (real_ != MPI_REQUEST_NULL && !down)
            real::Request_free(&real_);
    }
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    int make() override {
        const std::size_t all = bytes_ * here_.size();
        const pack::Payload first = payload(0);
        {
            const progress::Hold hold;
            if (!copy_->acquire(first.where.context, all))
                return error::raise(
                    Owner(arguments_.comm), MPI_ERR_NO_MEM,
                    fmt::format("{}: no host memory for {} bytes", comm::where(call_, arguments_.comm), all));
        }
        copy_->touched(all);
        const auto count = static_cast<MPI_Count>(bytes_);
        const Arguments& a = arguments_;
        return sends() ? real::Psend_init(copy_->data(), a.partitions, count, MPI_BYTE, a.peer, a.tag, a.comm, a.info,
                                          &real_)
                       : real::Precv_init(copy_->data(), a.partitions, count, MPI_BYTE, a.peer, a.tag, a.comm, a.info,
                                          &real_);
    }

    std::shared_ptr<progress::Operation> start(int& code) override;

    // Asks MPI whether the message is sent or received.
    int ask(MPI_Status& status) {
        if (sends() && left_ != 0)
            return MPI_SUCCESS;
        int flag = 0;
        const int rc = real::Test(&real_, &flag, &status);
        over_ = over_ || flag != 0;
        return rc;
    }
    bool over() const { return over_; }

    // Handles MPI_Pready: the program has written the partition.
    int ready(int partition) override {
        if (!valid(partition))
            return error::raise(
                Owner(comm()), MPI_ERR_ARG,
                fmt::format("MPI_Pready: the message has {} partitions, {} is none of them", partitions(), partition));
        if (const std::string failure = copy(partition); !failure.empty())
            return raise(failure);
        const progress::Hold hold;  // under the lock the engine does not run
        if (here_[static_cast<std::size_t>(partition)])
            return MPI_SUCCESS;
        here_[static_cast<std::size_t>(partition)] = true;
        if (left_ > 1) {
            --left_;
            return MPI_SUCCESS;
        }
        int rc = real::Start(&real_);
        for (int i = 0; i < arguments_.partitions && rc == MPI_SUCCESS; ++i)
            rc = real::Pready(i, real_);
        left_ = 0;
        return rc;
    }

    int arrived(int partition, int* flag) override {
        const bool all = over_;
        const int rc = all ? MPI_SUCCESS : real::Parrived(real_, partition, flag);
        if (all)  // MPI's request is inactive by now
            *flag = 1;
        if (rc != MPI_SUCCESS || *flag == 0 || !valid(partition) || !claim(partition))
            return rc;
        const std::string failure = copy(partition);
        {
            const progress::Hold hold;
            --copying_;
        }
        return failure.empty() ? rc : raise(failure);
    }

    // For a receive, under the engine's lock: tells whether an MPI_Parrived of the program's is copying a partition.
    bool being_copied() const { return copying_ != 0; }
    bool is_here(std::size_t partition) const { return here_[partition]; }

    bool sends() const { return call_ == CallId::kPsendInit; }
    CallId call() const { return call_; }
    MPI_Comm comm() const { return arguments_.comm; }
    int peer() const { return arguments_.peer; }
    int tag() const { return arguments_.tag; }
    std::size_t bytes() const { return bytes_ * here_.size(); }
    std::size_t partitions() const { return here_.size(); }

    std::unique_ptr<staging::Transfer> transfer(int partition) {
        std::byte* packed = copy_->data() + static_cast<std::size_t>(partition) * bytes_;
        const pack::Payload data = payload(partition);
        return sends() ? staging::pack(data, packed, copy_->page_locked())
                       : staging::unpack(data, bytes_, packed, copy_->page_locked());
    }

  private:
    bool valid(int partition) const { return partition >= 0 && partition < arguments_.partitions; }

    pack::Payload payload(int partition) const {
        Operand operand = arguments_.partition;
        operand.address = static_cast<std::byte*>(operand.address) + partition * (operand.count * extent_);
        Call call{.id = sends() ? CallId::kIsend : CallId::kIrecv, .owner = Owner(comm()), .operands = {&operand, 1}};
        call.root = 0;
        return pack::payload_of(call, operand);
    }

    bool claim(int partition) {
        const progress::Hold hold;
        if (here_[static_cast<std::size_t>(partition)])
            return false;
        here_[static_cast<std::size_t>(partition)] = true;
        ++copying_;
        return true;
    }

    std::string copy(int partition) { return staging::complete(transfer(partition), copy_); }

    int raise(const std::string& failure) const {
        return error::raise(Owner(comm()), MPI_ERR_OTHER, fmt::format("{}: {}", comm::where(call_, comm()), failure));
    }

    const CallId call_;
    Arguments arguments_;
    datatype::KeptType type_;
    MPI_Aint extent_ = 0;
    std::size_t bytes_ = 0;  // of one partition
    const std::shared_ptr<BounceBuffer> copy_ = std::make_shared<BounceBuffer>();
    MPI_Request real_ = MPI_REQUEST_NULL;
    std::vector<bool> here_;  // partitions that are ready (send), or copied to the program's buffer (receive)
    int copying_ = 0;
    std::atomic<bool> over_{true};
    std::atomic<int> left_{0};  // partitions of a send that are not ready yet
};

// The operation from MPI_Start until all partitions have been sent, or received and copied.
class Round final : public progress::Operation {
  public:
    explicit Round(std::shared_ptr<Message> message)
        : Operation(message->call(), message->comm()), message_(std::move(message)) {
        record_.is_message(message_->peer(), message_->tag());
        record_.route(Carrier::kStaged, Reason::kOutsideNccl, message_->bytes());
    }

    std::string describe() const override {
        return comm::where(call(), comm()) +
               (message_->over() ? ": its partitions are being copied" : ": its partitions are under way");
    }

    bool step() override {
        if (!message_->over())
            return look();
        if (moving_ != nullptr && !moving_->done() && !moving_->step())
            return false;
        if (moving_ != nullptr && moving_->done() && !moving_->failure().empty()) {
            fail(MPI_ERR_OTHER, fmt::format("{}: {}", comm::where(call(), comm()), moving_->failure()));
            return true;
        }
        if (moving_ != nullptr && !moving_->done())
            return true;
        moving_.reset();
        while (!message_->sends() && next_ < message_->partitions() && message_->is_here(next_))
            ++next_;
        if (!message_->sends() && next_ < message_->partitions()) {
            moving_ = message_->transfer(static_cast<int>(next_++));
            return true;
        }
        if (message_->being_copied())
            return false;
        record_.close(message_->bytes());
        progress::Outcome outcome;
        if (!message_->sends()) {
            outcome.source = status_.MPI_SOURCE;
            outcome.tag = status_.MPI_TAG;
            outcome.bytes = message_->bytes();
        }
        finish(std::move(outcome));
        return true;
    }

  private:
    bool look() {
        if (!progress::may_poll())
            return false;
        if (message_->ask(status_) != MPI_SUCCESS)
            fail(MPI_ERR_OTHER, comm::where(call(), comm()) + ": MPI could not carry the message");
        return message_->over();
    }

    const std::shared_ptr<Message> message_;
    MPI_Status status_{};
    std::size_t next_ = 0;
    std::unique_ptr<staging::Transfer> moving_;
    report::OpRecord record_{call(), owner()};
};

// MPI starts a send only when all partitions are ready: where MPI's progress runs between the start and the last
// partition, Open MPI 5.0.11 takes the message for sent (seen from the second start on, with host memory and without
// Switchyard).
std::shared_ptr<progress::Operation> Message::start(int& code) {
    std::fill(here_.begin(), here_.end(), false);
    over_ = false;
    left_ = arguments_.partitions;
    code = sends() ? MPI_SUCCESS : real::Start(&real_);
    if (code != MPI_SUCCESS)
        return nullptr;
    auto round = std::make_shared<Round>(shared_from_this());
    const progress::Hold hold;
    progress::add(round);
    return round;
}

}  // namespace

std::shared_ptr<Side> staged(CallId call, const Arguments& arguments) {
    return std::make_shared<Message>(call, arguments);
}

}  // namespace swy::p2p::partitioned

#endif
