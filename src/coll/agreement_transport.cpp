#include "coll/agreement_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "datatype/element.hpp"
#include "error/error.hpp"
#include "error/loss.hpp"
#include "progress/keep_until.hpp"
#include "real.hpp"
#include "request/real_end.hpp"

namespace swy::coll {

AgreementTransport::State PageTransport::step() {
    if (!published_) {
        const comm::SharedPage::Outcome told = page_.publish(mine_);
        if (told != comm::SharedPage::Outcome::kDone)
            return told == comm::SharedPage::Outcome::kClosed ? State::kClosed : State::kPending;
        published_ = true;
    }
    for (; next_ + 1 < place_.size; ++next_) {
        const int rank = (place_.rank + 1 + next_) % place_.size;
        const comm::SharedPage::Record* words = page_.peek(rank);
        if (words == nullptr && has_started_later(rank)) {
            words = page_.peek(rank);  // again: it publishes before it starts a later call
            some_nonblocking_ |= words == nullptr;
        } else if (words == nullptr && waits_for_ == WaitsFor::kAll) {
            if (!page_.closed())
                return State::kPending;
            words = page_.peek(rank);  // again: a rank publishes before it closes the page
            if (words == nullptr)
                return State::kClosed;
        }
        if (words == nullptr)
            continue;
        differ_ |= !same_print(*words, mine_);
        if (waits_for_ == WaitsFor::kAll)
            add(all_, *words);
    }
    return State::kComplete;
}

bool PageTransport::has_started_later(int rank) const {
    return page_.nonblocking(rank).end > print_in(mine_).sequence;
}

bool PageTransport::has_arrived(int rank) const {
    return published_ && (page_.peek(rank) != nullptr || has_started_later(rank));
}

bool PageTransport::waits(int rank) const {
    const comm::SharedPage::Record* words = published_ ? page_.peek(rank) : nullptr;
    return words != nullptr && has_device(*words);
}

std::vector<std::pair<int, Fingerprint>> PageTransport::prints() const {
    std::vector<std::pair<int, Fingerprint>> prints;
    for (int rank = 0; rank < place_.size; ++rank) {
        if (rank == place_.rank) {
            prints.emplace_back(rank, print_in(mine_));
        } else if (const comm::SharedPage::Record* words = page_.peek(rank)) {
            prints.emplace_back(rank, print_in(*words));
        } else if (has_started_later(rank)) {  // its last call, as far as the page says
            const comm::SharedPage::Nonblocking last = page_.nonblocking(rank);
            Fingerprint print;
            print.sequence = last.end - 1;
            print.call = last.what;
            print.op = static_cast<std::uint8_t>(datatype::Operator::kNull);
            prints.emplace_back(rank, print);
        }
    }
    return prints;
}

int start(VoteExchange& exchange, const comm::State& comm) {
    return real::Iallreduce(exchange.mine.data(), exchange.all.data(), static_cast<int>(exchange.mine.size()),
                            MPI_INT64_T, MPI_MAX, comm.handle, &exchange.request);
}

AgreementTransport::State MpiTransport::step() {
    bool ended = false;
    if (errors_ == Errors::kRaised) {
        int flag = 0;
        code_ = real::Test(&exchange_->request, &flag, MPI_STATUS_IGNORE);
        ended = flag != 0 || code_ != MPI_SUCCESS;
    } else {
        MPI_Status ignored;
        ended = request::has_ended(exchange_->request, Owner(comm_.handle), ignored, code_);
    }
    if (!ended)
        return State::kPending;
    return code_ == MPI_SUCCESS ? State::kComplete : State::kFailed;
}

// MPI goes on with the exchange, and writes into its memory when the last rank comes.
void MpiTransport::give_up() {
    progress::keep_until(std::exchange(exchange_->request, MPI_REQUEST_NULL), exchange_);
    comm_.given_up = true;
}

// The communicator's page shows the non-blocking calls of ranks that compute, too.
bool MpiTransport::has_arrived(int rank) const {
    return nonblocking_ != 0 && comm_.page != nullptr && comm_.page->nonblocking(rank).end >= nonblocking_;
}

// A rank that hears of it may end the job, so what the ranks are in is said before.
void JobMessages::tell_failure(const std::string& why) {
    error::say_timeout();
    if (what_ != 0 && !error::loss_of(comm_.handle))
        comm::tell_failure(comm::ranks_in_world(comm_), comm_.rank, what_, why);
}

std::string JobMessages::failure_elsewhere() {
    if (what_ == 0)
        return {};
    receive();
    comm::Failure first;
    if (!comm::failure_known(what_, &first))
        return {};
    comm::forget_failures(what_);
    return fmt::format("rank {} has given it up: {}", first.rank, first.why);
}

void JobMessages::tell_waiting() {
    if (what_ != 0)
        comm::tell_waiting(comm::ranks_in_world(comm_), comm_.rank, what_);
}

std::vector<int> JobMessages::waiting() const {
    std::vector<int> ranks;
    if (what_ != 0)
        for (const auto& [rank, answer] : comm::ranks_waiting(what_))
            ranks.push_back(rank);
    return ranks;
}

}  // namespace swy::coll
