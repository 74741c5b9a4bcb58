#include "coll/pending_agreement.hpp"

#include <utility>

#include "progress/engine.hpp"
#include "settings/settings.hpp"

namespace swy::coll {

PendingAgreement::PendingAgreement(comm::State& comm, std::shared_ptr<MpiExchange> exchange, comm::OperationId what,
                                   const char* did, std::uint64_t nonblocking)
    : transport_(comm, std::move(exchange), MpiTransport::Errors::kReturned, nonblocking),
      messages_(comm, settings::values().timeout > 0 ? what : 0),
      deadline_(settings::values().timeout, comm.handle),
      agreement_({comm.rank, comm.size}, transport_, messages_, deadline_, settings::values().timeout, did) {}

std::optional<std::string> PendingAgreement::step() {
    if (!progress::may_poll())
        return std::nullopt;
    std::optional<Agreement::End> end = agreement_.step();
    if (!end.has_value())
        return std::nullopt;
    return end->how == Agreement::End::How::kFailed ? "the agreement of the ranks failed" : std::move(end->why);
}

}  // namespace swy::coll
