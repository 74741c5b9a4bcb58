#include "coll/pending_agreement.hpp"

#include <utility>

#include "progress/engine.hpp"
#include "settings/settings.hpp"

namespace swy::coll {

PendingAgreement::PendingAgreement(comm::State& comm, std::shared_ptr<MpiExchange> exchange, comm::OperationId what,
                                   const char* did, std::uint64_t nonblocking)
    : comm_(comm),
      exchange_(std::move(exchange)),
      what_(settings::values().timeout > 0 ? what : 0),
      did_(did),
      transport_(comm, exchange_, MpiTransport::Errors::kReturned, nonblocking),
      messages_(comm, what_),
      deadline_(settings::values().timeout, comm.handle),
      agreement_({comm.rank, comm.size}, transport_, messages_, deadline_, settings::values().timeout, did) {}

std::optional<std::string> PendingAgreement::step() {
    if (!progress::may_poll())
        return std::nullopt;
    std::optional<Agreement::End> end = roll_ ? roll_->agreement().step() : agreement_.step();
    if (!end.has_value())
        return std::nullopt;
    if (end->how == Agreement::End::How::kComplete && !roll_ && what_ != 0 && some_came_late(exchange_->spread())) {
        roll_.emplace(comm_, what_, RollCall::For::kPresence, comm::Answer{}, settings::values().timeout, did_);
        return std::nullopt;
    }
    return end->how == Agreement::End::How::kFailed ? "the agreement of the ranks failed" : std::move(end->why);
}

}  // namespace swy::coll
