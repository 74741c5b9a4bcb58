#include "topology/order.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

namespace swy::topology {

namespace {

// The cost of several steps: the number of steps of each kind and their length, the farthest kind first. Compared in
// that order; a sum keeps the order of its parts.
using Cost = std::array<std::int64_t, 2 * kBetween>;

Cost operator+(const Cost& a, const Cost& b) {
    Cost sum;
    std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<>());
    return sum;
}

Cost cost_of(const Step& step) {
    Cost cost{};
    const std::size_t kind = kBetween - 1 - static_cast<std::size_t>(step.between);
    cost[2 * kind] = 1;
    cost[2 * kind + 1] = step.finer;
    return cost;
}

// A path from the first of some GPUs through the others to one more GPU, all as indices of a table of steps.
class Path {
  public:
    Path(const NodeFacts& facts, const std::vector<int>& gpus, int next) : size_(gpus.size()) {
        std::vector<int> all = gpus;
        all.push_back(next);
        for (const int from : all)
            for (const int to : all)
                steps_.push_back(from == to ? Cost{} : cost_of(step(facts, from, to)));
    }

    std::vector<std::size_t> best() const { return size_ <= kMostExact ? exact() : improved(); }

  private:
    const Cost& step_between(std::size_t from, std::size_t to) const { return steps_[from * (size_ + 1) + to]; }

    // The cheapest way on after each set of visited GPUs and each last one of these (Held and Karp, A dynamic
    // programming approach to sequencing problems); then from the front the nearest GPU from which the way on is
    // that cheap.
    std::vector<std::size_t> exact() const {
        const std::size_t sets = std::size_t{1} << size_;
        std::vector<Cost> ways(sets * size_);
        const auto way_by = [&](std::size_t set, std::size_t last, std::size_t gpu) {
            return step_between(last, gpu) + ways[(set | std::size_t{1} << gpu) * size_ + gpu];
        };
        const auto least = [&](std::size_t set, std::size_t last) {
            Cost cheapest;
            cheapest.fill(INT64_MAX);
            for (std::size_t gpu = 0; gpu < size_; ++gpu)
                if ((set >> gpu & 1) == 0)
                    cheapest = std::min(cheapest, way_by(set, last, gpu));
            return cheapest;
        };
        for (std::size_t set = sets - 1; set > 0; --set)
            for (std::size_t last = 0; last < size_; ++last)
                ways[set * size_ + last] = set == sets - 1 ? step_between(last, size_) : least(set, last);
        std::vector<std::size_t> path{0};
        for (std::size_t set = 1; path.size() < size_;) {
            const std::size_t last = path.back();
            std::size_t chosen = size_;
            for (std::size_t gpu = 0; gpu < size_; ++gpu)
                if ((set >> gpu & 1) == 0 && way_by(set, last, gpu) == ways[set * size_ + last] &&
                    (chosen == size_ || step_between(last, gpu) < step_between(last, chosen)))
                    chosen = gpu;
            path.push_back(chosen);
            set |= std::size_t{1} << chosen;
        }
        return path;
    }

    // From the GPUs' own order and from the nearest neighbour of each: parts are turned round while that helps.
    std::vector<std::size_t> improved() const {
        std::vector<std::size_t> own;
        for (std::size_t gpu = 0; gpu < size_; ++gpu)
            own.push_back(gpu);
        std::vector<std::size_t> near = own;
        for (std::size_t at = 1; at < size_; ++at)
            std::iter_swap(near.begin() + static_cast<std::ptrdiff_t>(at),
                           std::min_element(near.begin() + static_cast<std::ptrdiff_t>(at), near.end(),
                                            [&](std::size_t a, std::size_t b) {
                                                const Cost& to_a = step_between(near[at - 1], a);
                                                const Cost& to_b = step_between(near[at - 1], b);
                                                return to_a != to_b ? to_a < to_b : a < b;
                                            }));
        turn_parts(own);
        turn_parts(near);
        return cost(near) < cost(own) ? near : own;
    }

    void turn_parts(std::vector<std::size_t>& path) const {
        for (bool better = true; better;) {
            better = false;
            for (std::size_t from = 1; from + 1 < size_; ++from)
                for (std::size_t to = from + 1; to < size_; ++to) {
                    const std::size_t after = to + 1 < size_ ? path[to + 1] : size_;
                    if (step_between(path[from - 1], path[to]) + step_between(path[from], after) <
                        step_between(path[from - 1], path[from]) + step_between(path[to], after)) {
                        std::reverse(path.begin() + static_cast<std::ptrdiff_t>(from),
                                     path.begin() + static_cast<std::ptrdiff_t>(to) + 1);
                        better = true;
                    }
                }
        }
    }

    Cost cost(const std::vector<std::size_t>& path) const {
        Cost all = step_between(path.back(), size_);
        for (std::size_t at = 1; at < path.size(); ++at)
            all = all + step_between(path[at - 1], path[at]);
        return all;
    }

    const std::size_t size_;
    std::vector<Cost> steps_;
};

// The first GPU of the next rank that has one.
int first_after(std::span<const std::vector<int>> shares, std::size_t rank) {
    std::size_t next = (rank + 1) % shares.size();
    while (shares[next].empty())
        next = (next + 1) % shares.size();
    return shares[next].front();
}

}  // namespace

std::vector<int> ring_order(const NodeFacts& facts, std::span<const int> gpus, int next) {
    if (gpus.size() < 3)
        return {gpus.begin(), gpus.end()};
    std::vector<int> sorted(gpus.begin(), gpus.end());
    std::sort(sorted.begin(), sorted.end());
    std::rotate(sorted.begin(), std::find(sorted.begin(), sorted.end(), gpus.front()), sorted.end());
    std::vector<int> ordered;
    for (const std::size_t position : Path(facts, sorted, next).best())
        ordered.push_back(sorted[position]);
    return ordered;
}

void order_shares(const NodeFacts& facts, std::vector<std::vector<int>>& shares) {
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
        if (!shares[rank].empty())
            shares[rank] = ring_order(facts, shares[rank], first_after(shares, rank));
}

Between farthest(const NodeFacts& facts, std::span<const std::vector<int>> shares, std::size_t rank) {
    const std::vector<int>& gpus = shares[rank];
    auto all = Between::kOneGpu;
    for (std::size_t at = 0; at < gpus.size(); ++at) {
        const int next = at + 1 < gpus.size() ? gpus[at + 1] : first_after(shares, rank);
        if (next != gpus[at])
            all = std::max(all, step(facts, gpus[at], next).between);
    }
    return all;
}

}  // namespace swy::topology
