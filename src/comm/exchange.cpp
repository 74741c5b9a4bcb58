#include "comm/exchange.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "comm/job_messages.hpp"
#include "comm/world.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

// These tags come after those of chunks.
constexpr int kFirstTag = kFirstChunkTag + (1 << 20), kTags = 1 << 20;

std::byte* element(void* address, int number, MPI_Datatype type) {
    MPI_Aint low = 0, extent = 0;
    real::Type_get_extent(type, &low, &extent);
    return static_cast<std::byte*>(address) + number * extent;
}

}  // namespace

bool Exchange::possible(const State& state) {
    return control_communicator() != MPI_COMM_NULL && !state.spans_jobs && !state.inter && progress::engine_runs();
}

int Exchange::draw_tag() {
    static int drawn = 0;
    drawn = (drawn + 1) % kTags;
    return kFirstTag + drawn;
}

int Exchange::tag_of(std::int64_t number) {
    return kFirstTag + kTags + static_cast<int>(number % kTags);
}

Exchange::Exchange(State& state, std::vector<int> tags) : rank_(state.rank), tags_(std::move(tags)) {
    for (int rank = 0; rank < state.size; ++rank)
        world_.push_back(world_rank(state, rank));
}

// Does not wait for the pending requests: MPI frees them when they are complete.
Exchange::~Exchange() {
    int down = 0;
    real::Finalized(&down);
    for (MPI_Request& request : pending_)
        if (!down && request != MPI_REQUEST_NULL)
            real::Request_free(&request);
}

int Exchange::send(const void* data, int count, MPI_Datatype type, int to) {
    const auto at = static_cast<std::size_t>(to);
    return real::Isend(data, count, type, world_[at], tags_[at], control_communicator(),
                       &pending_.emplace_back(MPI_REQUEST_NULL));
}

int Exchange::receive(void* data, int count, MPI_Datatype type, int from) {
    return real::Irecv(data, count, type, world_[static_cast<std::size_t>(from)],
                       tags_[static_cast<std::size_t>(rank_)], control_communicator(),
                       &pending_.emplace_back(MPI_REQUEST_NULL));
}

int Exchange::begin(const Blocks& sent, const Blocks& received, MPI_Datatype type) {
    int code = MPI_SUCCESS;
    for (int i = 0; i < size() && code == MPI_SUCCESS; ++i) {
        const auto from = static_cast<std::size_t>((rank_ + i) % size());
        if (received.counts[from] > 0)
            code = receive(element(received.address, received.starts[from], type), received.counts[from], type,
                           static_cast<int>(from));
    }
    for (int i = 0; i < size() && code == MPI_SUCCESS; ++i) {
        const auto to = static_cast<std::size_t>((rank_ + i) % size());
        if (sent.counts[to] > 0)
            code = send(element(sent.address, sent.starts[to], type), sent.counts[to], type, static_cast<int>(to));
    }
    return code;
}

int Exchange::span() const {
    return rank_ == 0 ? size() : std::min(rank_ & -rank_, size() - rank_);
}

int Exchange::begin_round(std::vector<std::size_t> bytes, std::vector<std::byte>& all, std::function<void()> add) {
    round_ = {Round::Phase::kUp, all.data(), all.size(), {0}, std::move(add)};
    std::partial_sum(bytes.begin(), bytes.end(), std::back_inserter(round_.starts));
    int code = MPI_SUCCESS;
    for (int step = 1; step < span() && code == MPI_SUCCESS; step *= 2) {
        const auto from = static_cast<std::size_t>(rank_ + step);
        const auto end = static_cast<std::size_t>(std::min(rank_ + 2 * step, size()));
        code = receive(round_.all + round_.starts[from], static_cast<int>(round_.starts[end] - round_.starts[from]),
                       MPI_BYTE, rank_ + step);
    }
    return code;
}

// Begins what follows in a round when all messages of its phase are complete.
int Exchange::go_on() {
    const int parent = rank_ & (rank_ - 1);
    const std::size_t own = round_.starts[static_cast<std::size_t>(rank_)];
    switch (round_.phase) {
        case Round::Phase::kUp:
            if (rank_ == 0) {
                if (round_.add)
                    round_.add();
                return send_down();
            }
            round_.phase = Round::Phase::kSent;
            return send(round_.all + own,
                        static_cast<int>(round_.starts[static_cast<std::size_t>(rank_ + span())] - own), MPI_BYTE,
                        parent);
        case Round::Phase::kSent:
            round_.phase = Round::Phase::kDown;
            return receive(round_.all, static_cast<int>(round_.bytes), MPI_BYTE, parent);
        case Round::Phase::kDown:
            return send_down();
        default:
            round_.phase = Round::Phase::kNone;
            return MPI_SUCCESS;
    }
}

int Exchange::send_down() {
    round_.phase = Round::Phase::kLast;
    int step = 1;
    while (2 * step < span())
        step *= 2;
    int code = MPI_SUCCESS;
    for (; step > 0 && code == MPI_SUCCESS; step /= 2)
        if (step < span())
            code = send(round_.all, static_cast<int>(round_.bytes), MPI_BYTE, rank_ + step);
    return code;
}

bool Exchange::done(int& code) {
    while (messages_done(code)) {
        if (code == MPI_SUCCESS && round_.phase != Round::Phase::kNone)
            code = go_on();
        if (code != MPI_SUCCESS || round_.phase == Round::Phase::kNone)
            return true;
    }
    return false;
}

// Tests all requests at once: the message of a failure may come from any rank.
bool Exchange::messages_done(int& code) {
    code = MPI_SUCCESS;
    if (pending_.empty())
        return true;
    if (!progress::may_poll())
        return false;
    std::vector<int> which(pending_.size());
    int completed = 0;
    code = real::Testsome(static_cast<int>(pending_.size()), pending_.data(), &completed, which.data(),
                          MPI_STATUSES_IGNORE);
    const bool over =
        std::all_of(pending_.begin(), pending_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
    if (over)
        pending_.clear();
    return over || code != MPI_SUCCESS;
}

void Exchange::keep(const std::shared_ptr<void>& memory) {
    for (const MPI_Request request : std::exchange(pending_, {}))
        progress::keep_until(request, memory);
}

}  // namespace swy::comm
