#include "p2p/multiprocessors.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "device/device.hpp"
#include "nccl/communicator.hpp"

namespace swy::p2p::pair_comms {
namespace {

constexpr int kFewChannels = 4, kManyChannels = 16;

struct Share {
    int count = 0;  // of multiprocessors, for messages
    int taken = 0;
};

Share& share_of(int ordinal) {
    static auto* shares = new std::map<int, Share>;  // not destroyed at exit
    const auto [it, is_new] = shares->try_emplace(ordinal);
    if (is_new) {
        const int all = device::multiprocessors(ordinal);
        it->second.count = std::max(all / 2, all - nccl::Communicator::kMostChannels);
    }
    return it->second;
}

}  // namespace

int most_channels(std::span<const int> ordinals, bool links) {
    if (!links)
        return kFewChannels;
    int most = kManyChannels;
    // Messages from and to several peers at once are what GPUs with NVLink are connected for.
    constexpr unsigned kAtOnce = 4;
    for (const int ordinal : ordinals)
        most =
            std::min(most, static_cast<int>(std::bit_floor(static_cast<unsigned>(share_of(ordinal).count) / kAtOnce)));
    return std::max(most, kFewChannels);
}

bool MultiprocessorClaim::begin(std::span<const int> ordinals, int channels) {
    if (!ordinals_.empty())
        return true;
    const bool free = std::all_of(ordinals.begin(), ordinals.end(), [&](int ordinal) {
        const Share& share = share_of(ordinal);
        return share.taken == 0 || share.taken + channels <= share.count;
    });
    if (!free)
        return false;
    ordinals_.assign(ordinals.begin(), ordinals.end());
    channels_ = channels;
    for (const int ordinal : ordinals_)
        share_of(ordinal).taken += channels_;
    return true;
}

void MultiprocessorClaim::end() {
    for (const int ordinal : ordinals_)
        share_of(ordinal).taken -= channels_;
    ordinals_.clear();
}

}  // namespace swy::p2p::pair_comms
