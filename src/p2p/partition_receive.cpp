// The receiver of a partitioned message.
#include <algorithm>
#include <deque>
#include <map>
#include <new>
#include <string>

#include "comm/world.hpp"
#include "p2p/bounce_buffer.hpp"
#include "p2p/control.hpp"
#include "p2p/partition_messages.hpp"
#include "p2p/service.hpp"
#include "p2p/start.hpp"
#include "pack/payload.hpp"
#include "progress/wait.hpp"
#include "staging/limited_transfer.hpp"
#include "staging/pipeline.hpp"

#if OMPI_MAJOR_VERSION >= 5

namespace swy::p2p::partitioned {
namespace {

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
    std::map<MatchKey, std::deque<Announced>> announced;
    std::map<MatchKey, std::deque<std::weak_ptr<Incoming>>> incoming;
};
Unmatched& unmatched() {
    static auto* all = new Unmatched;  // not destroyed at exit
    return *all;
}

class Incoming final : public Partitions, public std::enable_shared_from_this<Incoming> {
  public:
    using Partitions::Partitions;

    int make() override {
        const MatchKey match{order_->number(), arguments_.peer, rank_, arguments_.tag};
        comm::State* const state = comm::of(comm());
        const progress::Hold hold;
        in_world_ = comm::world_rank(*state, arguments_.peer);
        auto& all = unmatched().announced;
        const auto there = all.find(match);
        if (there == all.end()) {
            unmatched().incoming[match].push_back(weak_from_this());
            return MPI_SUCCESS;
        }
        announced(there->second.front());
        there->second.pop_front();
        if (there->second.empty())
            all.erase(there);
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
    // The device may use the host memory at any time.
    void keep_memory() { progress::keep_for_ever(std::move(aside_)); }
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
        if (copy_.abandoned())
            side_->keep_memory();
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
    staging::LimitedTransfer copy_;
};

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

std::shared_ptr<Side> receiving_side(CallId call, const Arguments& arguments) {
    return std::make_shared<Incoming>(call, arguments);
}

void announced(const Control& control) {
    const Announced sender{static_cast<int>(control.parts), static_cast<std::size_t>(control.part),
                           static_cast<std::size_t>(control.bytes), static_cast<int>(control.id)};
    auto& all = unmatched().incoming;
    const auto waiting = all.find(control.key);
    if (waiting == all.end()) {
        unmatched().announced[control.key].push_back(sender);
        return;
    }
    // One that has been freed meanwhile was this message's receiver all the same.
    const std::shared_ptr<Incoming> receiver = waiting->second.front().lock();
    waiting->second.pop_front();
    if (waiting->second.empty())
        all.erase(waiting);
    if (receiver != nullptr)
        receiver->announced(sender);
}

}  // namespace swy::p2p::partitioned

#endif
