#include "coll/arrivals.hpp"

#include <fmt/format.h>

#include "call/hash.hpp"
#include "settings/settings.hpp"

namespace swy::coll {
namespace {

constexpr double kLooks = 50;  // number of looks in the time that a rank may wait

}  // namespace

comm::OperationId name_of(const comm::LaunchOrder& order, const comm::LaunchOrder::Launch& launch) {
    return call::kGoldenRatio * (static_cast<std::uint64_t>(order.number()) << 32U | launch.number) + launch.start;
}

Arrivals::Arrivals(const comm::State& comm, comm::OperationId what, double seconds, std::uint64_t nonblocking)
    : comm_(comm),
      what_(what),
      seconds_(seconds),
      nonblocking_(nonblocking),
      half_(seconds / 2),
      next_(seconds / kLooks) {}

void Arrivals::look() {
    if (what_ == 0 || !next_.passed())
        return;
    next_ = progress::Deadline(seconds_ / kLooks);
    comm::receive_failures();
    if (told_ || (!half_.passed() && comm::ranks_waiting(what_).empty()))
        return;
    told_ = true;
    comm::tell_waiting(comm::ranks_in_world(comm_), comm_.rank, what_);
}

std::vector<bool> Arrivals::known() const {
    if (what_ == 0)
        return {};
    std::vector<bool> arrived(static_cast<std::size_t>(comm_.size));
    arrived[static_cast<std::size_t>(comm_.rank)] = true;
    for (const int rank : comm::ranks_waiting(what_))
        arrived[static_cast<std::size_t>(rank)] = true;
    if (nonblocking_ != 0 && comm_.page != nullptr)
        for (int rank = 0; rank < comm_.size; ++rank)
            if (comm_.page->nonblocking(rank).end >= nonblocking_)
                arrived[static_cast<std::size_t>(rank)] = true;
    return arrived;
}

std::string not_launched(int missing) {
    const std::string who = missing == MPI_PROC_NULL ? "" : fmt::format(": rank {} has not launched it yet", missing);
    return fmt::format(
        "SWITCHYARD_TIMEOUT ({:g} s) has passed before all ranks launched it{}: see that each calls MPI "
        "meanwhile, or allow more time",
        settings::values().timeout, who);
}

std::string ranks_in_words(const std::vector<int>& ranks) {
    constexpr std::size_t kShown = 8;
    std::string text = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i)
        text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
    if (ranks.size() > kShown)
        text += fmt::format(" and {} more", ranks.size() - kShown);
    return text;
}

// MPI's error texts hold 255 characters, so the shorter of the two lists is shown.
std::string not_all(const char* did, const std::vector<bool>& arrived) {
    std::vector<int> here, missing;
    for (std::size_t rank = 0; rank < arrived.size(); ++rank)
        (arrived[rank] ? here : missing).push_back(static_cast<int>(rank));
    std::string who;
    if (!missing.empty())
        who = missing.size() <= here.size() ? fmt::format(", with no sign of {}", ranks_in_words(missing))
                                            : fmt::format(", with {} here alone", ranks_in_words(here));
    return fmt::format(
        "SWITCHYARD_TIMEOUT ({:g} s) has passed before all ranks {}{}: see that each does, or allow more time",
        settings::values().timeout, did, who);
}

}  // namespace swy::coll
