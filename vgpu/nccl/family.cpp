#include "vgpu/nccl/family.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include <unistd.h>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/quiet_thread.hpp"
#include "vgpu/nccl/transport_shm.hpp"
#include "vgpu/nccl/transport_tcp.hpp"

namespace vgpu::nccl {
namespace {

enum FamilyPurpose : std::uint64_t { kSegments = 1, kConnected, kChannel, kPeers, kAlgorithm };

// What NCCL 2.30 took for each of 64 channels of a communicator of two ranks on an H200 (docs/measurements.md).
constexpr std::size_t kChannelMemory = 26ull << 20;

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

ncclResult_t Family::connect(const std::vector<Member>& members, int self, const Name& name, const Device& device,
                             int channels, Stop stop, std::shared_ptr<Family>& out) {
    std::shared_ptr<Family> family(new Family(static_cast<int>(members.size()), self));
    family->name_ = name;
    family->members_ = members;
    Report mine;
    std::vector<Report> reports;
    ncclResult_t result = family->share_memory(members, name, stop);
    if (result == ncclSuccess)
        result = family->connect_hosts(members, name, stop);
    if (result == ncclSuccess)
        result = family->watch();
    if (result == ncclSuccess)
        result = family->take_memory(device, channels);
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
    std::vector<int>& here = here_;
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

ncclResult_t Family::take_memory(const Device& device, int channels) {
    if (ranks() == 1)
        return ncclSuccess;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal};
    const std::size_t bytes = static_cast<std::size_t>(channels) * kChannelMemory;
    const ncclResult_t result = checked(cuMemCreate(&memory_, bytes, &properties, 0), "cuMemCreate");
    if (result != ncclSuccess)
        warn("Failed to allocate %zu bytes for %d channels", bytes, channels);
    return result;
}

void Family::stop() {
    const auto at = std::find(here_.begin(), here_.end(), self_) - here_.begin();
    segment_->stopped(static_cast<int>(at)) = 1;
}

void Family::wait_for_host() {
    const auto waits_for = [this](std::size_t local) {
        const Member& other = members_[static_cast<std::size_t>(here_[local])];
        return segment_->stopped(static_cast<int>(local)) == 0 && (kill(other.pid, 0) == 0 || errno != ESRCH);
    };
    for (std::size_t local = 0; local < here_.size(); ++local) {
        const bool own_process = members_[static_cast<std::size_t>(here_[local])].pid == getpid();
        if (own_process && segment_->stopped(static_cast<int>(local)) == 0)
            return;
    }
    for (std::size_t local = 0; local < here_.size(); ++local)
        while (waits_for(local))
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

ncclResult_t Family::connect_peers(const std::vector<int>& sends, const std::vector<int>& receives, Stop stop) {
    const std::lock_guard guard(connecting_);
    std::vector<std::pair<int, int>> missing;  // from, to
    for (const int peer : sends)
        if (peer != self_ && connected_.emplace(self_, peer).second)
            missing.emplace_back(self_, peer);
    for (const int peer : receives)
        if (peer != self_ && connected_.emplace(peer, self_).second)
            missing.emplace_back(peer, self_);
    // All at once: one after the other, ranks in a ring would each wait for the next one.
    std::vector<ncclResult_t> results(missing.size(), ncclSuccess);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < missing.size(); ++i)
        threads.push_back(quiet_thread([&, i] {
            const auto [from, to] = missing[i];
            const Name meeting =
                derive(name_, kPeers, static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to));
            std::vector<int> both;
            results[i] = meet(members_[static_cast<std::size_t>(to)].service, meeting, 2, from == self_ ? 0 : 1, self_,
                              stop, both);
        }));
    for (std::thread& thread : threads)
        thread.join();
    const auto failed = std::find_if(results.begin(), results.end(), [](ncclResult_t r) { return r != ncclSuccess; });
    return failed == results.end() ? ncclSuccess : *failed;
}

ncclResult_t Family::connect_all(int algorithm, Stop stop) {
    const std::lock_guard guard(connecting_);
    if (ranks() == 1 || !algorithms_.insert(algorithm).second)
        return ncclSuccess;
    std::vector<int> all;
    return meet(members_[0].service, derive(name_, kAlgorithm, static_cast<std::uint64_t>(algorithm)), ranks(), self_,
                self_, stop, all);
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
    if (memory_ != 0)
        cuMemRelease(memory_);
}

}  // namespace vgpu::nccl
