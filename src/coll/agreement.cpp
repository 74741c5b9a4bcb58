#include "coll/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/units.hpp"

namespace swy::coll {
namespace {

constexpr double kLooks = 50;  // number of looks in the time that a rank may wait

// MPI's error texts hold 255 characters, so the shorter of the two lists is shown.
std::string who_is_missing(const std::vector<bool>& arrived) {
    std::vector<int> here, missing;
    for (std::size_t rank = 0; rank < arrived.size(); ++rank)
        (arrived[rank] ? here : missing).push_back(static_cast<int>(rank));
    if (missing.empty())
        return {};
    return missing.size() <= here.size() ? fmt::format(", with no sign of {}", report::ranks_in_words(missing))
                                         : fmt::format(", with {} here alone", report::ranks_in_words(here));
}

}  // namespace

Agreement::Agreement(Place place, AgreementTransport& transport, AgreementMessages& messages,
                     const progress::Deadline& deadline, double patience, const char* did)
    : place_(place),
      transport_(transport),
      messages_(messages),
      deadline_(deadline),
      patience_(patience),
      did_(did),
      half_(patience / 2),
      next_(patience / kLooks) {}

std::optional<Agreement::End> Agreement::step() {
    switch (transport_.step()) {
        case AgreementTransport::State::kComplete: {
            std::string why = messages_.failure_elsewhere();
            return End{why.empty() ? End::How::kComplete : End::How::kGivenUp, std::move(why)};
        }
        case AgreementTransport::State::kFailed:
            return End{End::How::kFailed, {}};
        case AgreementTransport::State::kClosed:
            return End{End::How::kClosed, {}};
        case AgreementTransport::State::kPending:
            break;
    }
    if (std::string why = messages_.failure_elsewhere(); !why.empty()) {
        transport_.give_up();
        return End{End::How::kGivenUp, std::move(why)};
    }
    if (deadline_.passed())
        return give_up();
    look();
    return std::nullopt;
}

Agreement::End Agreement::give_up() {
    transport_.give_up();
    std::string why = fmt::format("{} before all ranks {}{}: see that each does, or allow more time", deadline_.why(),
                                  did_, who_is_missing(arrived()));
    messages_.tell_failure(why);
    return {End::How::kGivenUp, std::move(why)};
}

// A rank that computes while its non-blocking call is under way sends nothing: MPI makes the progress that its call
// needs.
void Agreement::look() {
    if (transport_.shows_ranks() || !messages_.possible() || !next_.passed())
        return;
    next_ = progress::Deadline(patience_ / kLooks);
    messages_.receive();
    if (told_ || (!half_.passed() && messages_.waiting().empty()))
        return;
    told_ = true;
    messages_.tell_waiting();
}

std::vector<bool> Agreement::arrived() const {
    if (!transport_.shows_ranks() && !messages_.possible())
        return {};
    std::vector<bool> ranks(static_cast<std::size_t>(place_.size));
    for (int rank = 0; rank < place_.size; ++rank)
        ranks[static_cast<std::size_t>(rank)] = rank == place_.rank || transport_.has_arrived(rank);
    for (const int rank : messages_.waiting())
        ranks[static_cast<std::size_t>(rank)] = true;
    return ranks;
}

std::string Agreement::waits_for() const {
    return fmt::format("not all ranks have {}{}", did_, who_is_missing(arrived()));
}

std::string Agreement::waits_here() const {
    const std::vector<int> told = messages_.waiting();
    for (int rank = 0; rank < place_.rank; ++rank)
        if (transport_.waits(rank) || std::find(told.begin(), told.end(), rank) != told.end())
            return {};
    return waits_for();
}

}  // namespace swy::coll
