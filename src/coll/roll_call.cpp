#include "coll/roll_call.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "settings/settings.hpp"

namespace swy::coll {

bool some_came_late(std::int64_t spread) {
    const double limit = settings::values().timeout;
    return limit > 0 && static_cast<double>(spread) >= limit * 1e3 / 2;
}

std::int64_t time_of_vote() {
    if (settings::values().timeout <= 0)
        return 0;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

RollTransport::~RollTransport() {
    comm::forget_waiting(what_);
    comm::forget_waiting(result_);
}

AgreementTransport::State RollTransport::step() {
    const bool first = comm_.rank == 0;
    if (!first && !told_)
        comm::tell_waiting({comm::ranks_in_world(comm_).front()}, comm_.rank, what_, greatest_);
    told_ |= !first;
    comm::receive_failures();
    const std::map<int, comm::Answer> answers = comm::ranks_waiting(first ? what_ : result_);
    if (answers.size() < (first ? static_cast<std::size_t>(comm_.size) - 1 : 1))
        return State::kPending;
    for (const auto& [rank, answer] : answers)
        for (std::size_t i = 0; i < greatest_.size(); ++i)
            greatest_[i] = std::max(greatest_[i], answer[i]);
    if (!told_)
        comm::tell_waiting(comm::ranks_in_world(comm_), comm_.rank, result_, greatest_);
    told_ = true;
    return State::kComplete;
}

bool RollTransport::has_arrived(int rank) const {
    return comm::ranks_waiting(what_).count(rank) != 0;
}

RollCall::RollCall(const comm::State& comm, comm::OperationId what, For question, comm::Answer answer, double patience,
                   const char* did)
    : deadline_(settings::values().timeout, comm.handle),
      transport_(comm, call::mix(what ^ static_cast<std::uint64_t>(question) << 63U), std::move(answer)),
      messages_(comm, patience > 0 ? what : 0),
      agreement_({comm.rank, comm.size}, transport_, messages_, deadline_, patience, did) {}

}  // namespace swy::coll
