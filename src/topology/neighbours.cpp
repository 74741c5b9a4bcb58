#include "topology/neighbours.hpp"

#include <algorithm>
#include <limits>

namespace swy::topology {

namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

std::size_t index(std::int64_t number) {
    return static_cast<std::size_t>(number);
}

// Rank after rank, from the last to the first. What the ranks after one can still do depends on how many ranks each GPU
// has by then (one number, `loads`, with a digit for each GPU) and on where the rank before them is. No GPU gets more
// ranks than in the assignment without links, which is as even as can be.
class Search {
  public:
    Search(const Problem& problem, const Neighbours& neighbours, const std::vector<int>& start)
        : problem_(problem), neighbours_(neighbours), digit_(index(problem.gpus)) {
        std::vector<std::int64_t> load(index(problem.gpus));
        for (const int gpu : start)
            largest_ = std::max(largest_, ++load[index(gpu)]);
        std::int64_t distances = 0;
        std::int64_t slowest = 0;
        for (const std::int64_t cost : problem.cost)
            distances = std::max(distances, cost);
        for (const std::int64_t slowness : neighbours.slowness)
            slowest = std::max(slowest, slowness);
        link_ = slowest * problem.ranks + 1;
        pair_ = (distances * problem.ranks + 1) * link_;
    }

    bool feasible() {
        for (std::size_t gpu = 0; gpu < digit_.size(); ++gpu) {
            digit_[gpu] = states_;
            states_ *= largest_ + 1;
            if (states_ * problem_.gpus > kMostStates)
                return false;
        }
        return states_ * problem_.gpus * problem_.ranks <= 8 * kMostStates;
    }

    std::vector<int> solve() {
        best_.assign(index(states_ * problem_.gpus), -1);
        std::vector<int> result;
        std::int64_t loads = 0;
        int before = 0;  // of no meaning for the first rank
        for (int rank = 0; rank < problem_.ranks; ++rank) {
            const std::int64_t wanted = rest(rank, loads, before);
            int gpu = 0;
            while (step(rank, loads, before, gpu) != wanted)
                ++gpu;
            result.push_back(gpu);
            loads += digit_[index(gpu)];
            before = gpu;
        }
        return result;
    }

  private:
    std::int64_t load(std::int64_t loads, int gpu) const { return loads / digit_[index(gpu)] % (largest_ + 1); }

    // The least cost of this rank and those after it. How many ranks have been placed is in `loads`.
    std::int64_t rest(int rank, std::int64_t loads, int before) {
        if (rank == problem_.ranks)
            return 0;
        std::int64_t& known = best_[index(loads * problem_.gpus + before)];
        if (known >= 0)
            return known;
        std::int64_t least = kInfinite;
        for (int gpu = 0; gpu < problem_.gpus; ++gpu)
            least = std::min(least, step(rank, loads, before, gpu));
        return known = least;
    }

    std::int64_t step(int rank, std::int64_t loads, int before, int gpu) {
        const std::int64_t distance = problem_.cost[index(rank * problem_.gpus + gpu)];
        const std::int64_t ranks_there = load(loads, gpu);
        if (distance == kHidden || ranks_there == largest_)
            return kInfinite;
        const bool counted = rank > 0 && neighbours_.follows[index(rank)] && gpu != before;
        const std::int64_t slowness = counted ? neighbours_.slowness[index(before * problem_.gpus + gpu)] : 0;
        const std::int64_t after = rest(rank + 1, loads + digit_[index(gpu)], gpu);
        return after >= kInfinite ? kInfinite : pair_ * ranks_there + link_ * distance + slowness + after;
    }

    const Problem& problem_;
    const Neighbours& neighbours_;
    std::vector<std::int64_t> digit_;
    std::vector<std::int64_t> best_;
    std::int64_t largest_ = 0, states_ = 1, link_ = 1, pair_ = 1;
};

}  // namespace

std::vector<int> assign_neighbours(const Problem& problem, const Neighbours& neighbours, std::vector<int> start) {
    const bool counted =
        std::find(neighbours.follows.begin(), neighbours.follows.end(), true) != neighbours.follows.end();
    const auto& slowness = neighbours.slowness;
    std::int64_t first = -1;  // all links alike: nothing to choose
    bool differ = false;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(slowness.size()); ++i) {
        if (i / problem.gpus == i % problem.gpus)
            continue;
        first = first < 0 ? slowness[index(i)] : first;
        differ = differ || slowness[index(i)] != first;
    }
    if (!counted || !differ)
        return start;
    Search search(problem, neighbours, start);
    return search.feasible() ? search.solve() : start;
}

}  // namespace swy::topology
