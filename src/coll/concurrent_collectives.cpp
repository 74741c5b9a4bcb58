#include "coll/concurrent_collectives.hpp"

#include <mutex>

namespace swy::coll {
namespace {

struct Counts {
    std::mutex mutex;
    int all = 0, alone = 0;
    bool several_threads = false;
};
constinit Counts counts{};

}  // namespace

ConcurrentCollectives::ConcurrentCollectives(Kind kind) {
    const std::scoped_lock lock(counts.mutex);
    beside_one_alone_ = counts.alone != 0;
    counts.several_threads |= beside_one_alone_;
    alone_ = kind == Kind::kBlocking && counts.all == 0 && !counts.several_threads;
    ++counts.all;
    counts.alone += alone_ ? 1 : 0;
}

ConcurrentCollectives::~ConcurrentCollectives() {
    const std::scoped_lock lock(counts.mutex);
    --counts.all;
    counts.alone -= alone_ ? 1 : 0;
}

}  // namespace swy::coll
