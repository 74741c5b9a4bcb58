#include "p2p/partitioned.hpp"

#if OMPI_MAJOR_VERSION >= 5

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "carrier/staged/pipeline.hpp"
#include "datatype/quick.hpp"
#include "error/error.hpp"
#include "p2p/begin.hpp"
#include "p2p/landing.hpp"
#include "p2p/ledger.hpp"
#include "p2p/payload.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "request/wait.hpp"

namespace swy::p2p::partitioned {
namespace {

class Message;

// By the handles that the program has.
struct Known {
    std::mutex mutex;
    std::map<MPI_Request, std::weak_ptr<Message>> messages;
};
Known& known() {
    static auto* all = new Known;  // not destroyed at exit
    return *all;
}

// One side of a partitioned message, from its making to its freeing.
class Message {
  public:
    Message(CallId call, const Arguments& arguments) : call_(call), arguments_(arguments) {
        Operand& partition = arguments_.partition;
        if (datatype::predefined_size(partition.type) == 0 && real::Type_dup(partition.type, &own_type_) == MPI_SUCCESS)
            partition.type = own_type_;  // the program may free its own
        MPI_Aint lb = 0;
        real::Type_get_extent(partition.type, &lb, &extent_);
        bytes_ = static_cast<std::size_t>(partition.count) * datatype::size_of(partition.type);
        here_.resize(static_cast<std::size_t>(arguments.partitions));
    }
    ~Message() {
        int down = 0;
        real::Finalized(&down);
        if (down)
            return;
        if (real_ != MPI_REQUEST_NULL)
            real::Request_free(&real_);
        if (own_type_ != MPI_DATATYPE_NULL)
            real::Type_free(&own_type_);
    }
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    int make() {
        const std::size_t all = bytes_ * here_.size();
        const Payload first = payload(0);
        {
            const request::Hold hold;
            if (!copy_.acquire(first.where.context, all))
                return error::raise(Owner(arguments_.comm), MPI_ERR_NO_MEM,
                                    fmt::format("{}: no host memory for {} bytes", name(call_), all));
        }
        copy_.touched(all);
        const auto count = static_cast<MPI_Count>(bytes_);
        const Arguments& a = arguments_;
        return sends() ? real::Psend_init(copy_.data(), a.partitions, count, MPI_BYTE, a.peer, a.tag, a.comm, a.info,
                                          &real_)
                       : real::Precv_init(copy_.data(), a.partitions, count, MPI_BYTE, a.peer, a.tag, a.comm, a.info,
                                          &real_);
    }

    // A send is MPI's only when all of it is ready: where MPI's progress runs between the start and the last partition,
    // Open MPI 5.0.11 takes the message for sent (seen from the second start on, with host memory and without us).
    int start() {
        std::fill(here_.begin(), here_.end(), false);
        over_ = false;
        left_ = arguments_.partitions;
        return sends() ? MPI_SUCCESS : real::Start(&real_);
    }

    // Asks MPI whether all is sent or received.
    int ask(MPI_Status& status) {
        if (sends() && left_ != 0)
            return MPI_SUCCESS;
        int flag = 0;
        const int rc = real::Test(&real_, &flag, &status);
        over_ = over_ || flag != 0;
        return rc;
    }
    bool over() const { return over_; }

    // The program has written the partition.
    int ready(int partition) {
        if (!valid(partition))
            return error::raise(
                Owner(comm()), MPI_ERR_ARG,
                fmt::format("MPI_Pready: the message has {} partitions, {} is none of them", partitions(), partition));
        if (const std::string failure = copy(partition); !failure.empty())
            return raise(failure);
        const request::Hold hold;  // and so no progress of ours
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

    int arrived(int partition, int* flag) {
        const bool all = over_;
        const int rc = all ? MPI_SUCCESS : real::Parrived(real_, partition, flag);
        if (all)  // MPI's request is inactive by now
            *flag = 1;
        if (rc != MPI_SUCCESS || *flag == 0 || !valid(partition) || !claim(partition))
            return rc;
        const std::string failure = copy(partition);
        {
            const request::Hold hold;
            --copying_;
        }
        return failure.empty() ? rc : raise(failure);
    }

    // Of a receive, under the engine's lock: is a partition being copied by the program's own question?
    bool being_copied() const { return copying_ != 0; }
    bool is_here(std::size_t partition) const { return here_[partition]; }

    bool sends() const { return call_ == CallId::kPsendInit; }
    CallId call() const { return call_; }
    MPI_Comm comm() const { return arguments_.comm; }
    std::size_t bytes() const { return bytes_ * here_.size(); }
    std::size_t partitions() const { return here_.size(); }

    std::unique_ptr<Transfer> transfer(int partition) {
        std::byte* packed = copy_.data() + static_cast<std::size_t>(partition) * bytes_;
        const Payload data = payload(partition);
        return sends() ? carrier::staged::pack(data, packed, copy_.page_locked())
                       : carrier::staged::unpack(data, bytes_, packed, copy_.page_locked());
    }

  private:
    bool valid(int partition) const { return partition >= 0 && partition < arguments_.partitions; }

    Payload payload(int partition) const {
        Operand operand = arguments_.partition;
        operand.address = static_cast<std::byte*>(operand.address) + partition * (operand.count * extent_);
        Call call{.id = sends() ? CallId::kIsend : CallId::kIrecv, .owner = Owner(comm()), .operands = {&operand, 1}};
        call.root = 0;
        return payload_of(call, operand);
    }

    bool claim(int partition) {
        const request::Hold hold;
        if (here_[static_cast<std::size_t>(partition)])
            return false;
        here_[static_cast<std::size_t>(partition)] = true;
        ++copying_;
        return true;
    }

    std::string copy(int partition) {
        const auto moving = transfer(partition);
        while (!moving->done()) {
            {
                const request::Hold hold;
                moving->step();
            }
            if (!moving->done())
                request::progress();
        }
        return moving->failure();
    }

    int raise(const std::string& failure) const {
        return error::raise(Owner(comm()), MPI_ERR_OTHER, fmt::format("{}: {}", name(call_), failure));
    }

    const CallId call_;
    Arguments arguments_;
    MPI_Datatype own_type_ = MPI_DATATYPE_NULL;
    MPI_Aint extent_ = 0;
    std::size_t bytes_ = 0;  // of one partition
    Landing copy_;
    MPI_Request real_ = MPI_REQUEST_NULL;
    std::vector<bool> here_;  // partitions that the program has been told of, and that are where it wants them
    int copying_ = 0;
    std::atomic<bool> over_{true};
    std::atomic<int> left_{0};  // partitions of a send that are not ready
};

// From MPI_Start until all partitions have been sent, or received and copied.
class Round final : public request::Operation {
  public:
    explicit Round(std::shared_ptr<Message> message)
        : Operation(message->call(), message->comm()), message_(std::move(message)) {
        ledger_.route(Carrier::kStaged, Reason::kNotBuilt);
    }

    bool step() override {
        if (!message_->over())
            return look();
        if (moving_ != nullptr && !moving_->done() && !moving_->step())
            return false;
        if (moving_ != nullptr && moving_->done() && !moving_->failure().empty()) {
            fail(MPI_ERR_OTHER, fmt::format("{}: {}", name(call()), moving_->failure()));
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
        ledger_.close(call(), message_->bytes());
        request::Outcome outcome;
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
        if (!request::may_ask())
            return false;
        if (message_->ask(status_) != MPI_SUCCESS)
            fail(MPI_ERR_OTHER, fmt::format("{}: MPI could not carry the message", name(call())));
        return message_->over();
    }

    const std::shared_ptr<Message> message_;
    MPI_Status status_{};
    std::size_t next_ = 0;
    std::unique_ptr<Transfer> moving_;
    Ledger ledger_;
};

int init(CallId call, const Arguments& arguments, MPI_Request* request) {
    auto message = std::make_shared<Message>(call, arguments);
    if (const int rc = message->make(); rc != MPI_SUCCESS)
        return rc;
    const auto start = [message](int& code) -> std::shared_ptr<request::Operation> {
        code = message->start();
        if (code != MPI_SUCCESS)
            return nullptr;
        auto round = std::make_shared<Round>(message);
        const request::Hold hold;
        request::add(round);
        return round;
    };
    const int rc = request::hand_out_persistent(call, arguments.comm, start, request);
    if (rc == MPI_SUCCESS) {
        Known& all = known();
        const std::scoped_lock lock(all.mutex);
        all.messages[*request] = message;
    }
    return rc;
}

// A handle that was freed and is another request's now is not found: its message has gone with it.
std::shared_ptr<Message> find(MPI_Request request) {
    Known& all = known();
    const std::scoped_lock lock(all.mutex);
    const auto it = all.messages.find(request);
    return it == all.messages.end() ? nullptr : it->second.lock();
}

}  // namespace

bool on_device(const Arguments& arguments) {
    if (arguments.partitions <= 0 || arguments.peer == MPI_PROC_NULL)
        return false;
    Operand all = arguments.partition;
    all.count *= arguments.partitions;
    Call call{.id = CallId::kIsend, .owner = Owner(arguments.comm), .operands = {&all, 1}};
    call.root = 0;
    return p2p::on_device(call, all);
}

int send_init(const Arguments& arguments, MPI_Request* request) {
    return init(CallId::kPsendInit, arguments, request);
}

int receive_init(const Arguments& arguments, MPI_Request* request) {
    return init(CallId::kPrecvInit, arguments, request);
}

bool ready(MPI_Request request, int partition, int& code) {
    const auto message = find(request);
    if (message == nullptr)
        return false;
    code = message->ready(partition);
    return true;
}

bool arrived(MPI_Request request, int partition, int* flag, int& code) {
    const auto message = find(request);
    if (message == nullptr)
        return false;
    code = message->arrived(partition, flag);
    return true;
}

}  // namespace swy::p2p::partitioned

#endif
