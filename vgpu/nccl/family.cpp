#include "vgpu/nccl/family.hpp"

#include <algorithm>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/transport_shm.hpp"
#include "vgpu/nccl/transport_tcp.hpp"

namespace vgpu::nccl {
namespace {

enum Purpose : std::uint64_t { kSegments = 1, kConnected, kChannel };

// The result that a rank reports after its own part, so that the others do not wait for one that has failed.
struct Report {
    std::int32_t result = ncclSuccess;
    Segment::Location location;
};

// Exchanges the results through the first rank's service, and returns the worst of them, as seen from this rank.
ncclResult_t meet_all(const std::vector<Member>& members, int self, const Name& meeting, const Report& mine, Stop stop,
                      std::vector<Report>& reports) {
    const ncclResult_t met =
        meet(members[0].service, meeting, static_cast<int>(members.size()), self, mine, stop, reports);
    if (met != ncclSuccess || mine.result != ncclSuccess)
        return mine.result != ncclSuccess ? static_cast<ncclResult_t>(mine.result) : met;
    const auto failed = std::find_if(reports.begin(), reports.end(), [](const Report& r) { return r.result != 0; });
    if (failed == reports.end())
        return ncclSuccess;
    warn("rank %d failed to set up its connections", static_cast<int>(failed - reports.begin()));
    return ncclRemoteError;
}

}  // namespace

Family::Family(int ranks, int self) : links_(static_cast<std::size_t>(ranks)), self_(self) {}

ncclResult_t Family::connect(const std::vector<Member>& members, int self, const Name& name, Stop stop,
                             std::shared_ptr<Family>& out) {
    std::shared_ptr<Family> family(new Family(static_cast<int>(members.size()), self));
    Report mine;
    std::vector<Report> reports;
    ncclResult_t result = family->share_memory(members, name, stop);
    if (result == ncclSuccess)
        result = family->connect_hosts(members, name, stop);
    if (result == ncclSuccess)
        result = family->watch();
    mine.result = result;
    result = meet_all(members, self, derive(name, kConnected, 0), mine, stop, reports);
    if (family->segment_)
        family->segment_->close_file();
    if (result == ncclSuccess)
        out = std::move(family);
    else
        family->halt();  // no goodbye
    return result;
}

ncclResult_t Family::share_memory(const std::vector<Member>& members, const Name& name, Stop stop) {
    std::vector<int> here;
    for (std::size_t i = 0; i < members.size(); ++i)
        if (members[i].host == members[static_cast<std::size_t>(self_)].host)
            here.push_back(static_cast<int>(i));
    const int local_ranks = static_cast<int>(here.size());
    const auto local = [&](int rank) {
        return static_cast<int>(std::find(here.begin(), here.end(), rank) - here.begin());
    };

    Report mine;
    std::vector<Report> reports;
    if (here.front() == self_) {
        mine.result = Segment::create(local_ranks, name, segment_);
        if (mine.result == ncclSuccess)
            mine.location = segment_->location();
    }
    ncclResult_t result = meet_all(members, self_, derive(name, kSegments, 0), mine, stop, reports);
    if (result == ncclSuccess && here.front() != self_)
        result = Segment::attach(reports[static_cast<std::size_t>(here.front())].location, local_ranks, name, segment_);
    if (result != ncclSuccess)
        return result;
    bell_ = &segment_->bell(local(self_));
    for (const int peer : here)
        if (peer != self_)
            links_[static_cast<std::size_t>(peer)] =
                std::make_unique<Link>(shared_memory_channel(segment_, local(self_), local(peer)));
    return ncclSuccess;
}

ncclResult_t Family::connect_hosts(const std::vector<Member>& members, const Name& name, Stop stop) {
    const auto channel_name = [&](int opener, int taker) {
        return derive(name, kChannel, static_cast<std::uint64_t>(opener) << 32 | static_cast<std::uint64_t>(taker));
    };
    // Opening a connection never waits for the other side, so all ranks open theirs first and accept afterwards.
    for (const bool opening : {true, false}) {
        for (int peer = 0; peer < ranks(); ++peer) {
            const Member& other = members[static_cast<std::size_t>(peer)];
            if (other.host == members[static_cast<std::size_t>(self_)].host || (peer < self_) != opening)
                continue;
            Fd connection;
            const ncclResult_t result =
                opening ? open_connection(other.service, channel_name(self_, peer), stop, connection)
                        : take_connection(channel_name(peer, self_), stop, connection);
            if (result != ncclSuccess)
                return result;
            auto channel = std::make_unique<TcpChannel>(std::move(connection));
            remote_.push_back(channel.get());
            remote_ranks_.push_back(peer);
            links_[static_cast<std::size_t>(peer)] = std::make_unique<Link>(std::move(channel));
        }
    }
    return ncclSuccess;
}

ncclResult_t Family::watch() {
    if (remote_.empty())
        return ncclSuccess;
    watcher_ = std::make_unique<Watcher>(remote_, *bell_, [this](std::size_t channel) {
        warn("Connection closed by remote peer, rank %d", remote_ranks_[channel]);
        fail(ncclRemoteError, false);
    });
    return watcher_->start();
}

void Family::halt() {
    halted_ = true;
    ticket_lock_.halt();
    if (bell_ != nullptr)
        bell_->ring();
}

void Family::fail(ncclResult_t error, bool ended) {
    ncclResult_t none = ncclSuccess;
    error_.compare_exchange_strong(none, error);
    if (ended)
        ended_ = true;
    if (bell_ != nullptr)
        bell_->ring();
}

Family::~Family() {
    if (!halted_)
        for (const auto& link : links_)
            if (link && !link->broken())
                link->say_goodbye();
    watcher_.reset();  // before the channels that it watches
}

}  // namespace vgpu::nccl
