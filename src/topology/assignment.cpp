#include "topology/assignment.hpp"

#include <algorithm>
#include <limits>

namespace swy::topology {

namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

std::size_t index(std::int64_t number) {
    return static_cast<std::size_t>(number);
}

// Successive shortest paths. The nodes are the GPUs and, as the last, the end of all ways: a way goes from GPU to GPU
// by moving, at each step, the rank that is cheapest to move; a step to the end adds a rank to a GPU's load, a step
// back from there takes one away. The flow is optimal for the ranks placed so far after each way.
class Flow {
  public:
    explicit Flow(const Problem& problem)
        : problem_(problem),
          end_(problem.gpus),
          gpu_of_(static_cast<std::size_t>(problem.ranks), -1),
          load_(static_cast<std::size_t>(problem.gpus)),
          fixed_(gpu_of_.size()) {
        std::int64_t largest = 0;
        for (const std::int64_t cost : problem.cost)
            largest = std::max(largest, cost);
        pair_ = largest * problem.ranks + 1;  // one pair on a GPU outweighs all distances
    }

    // Assigns a GPU to a rank that has none yet.
    void assign_rank(int rank) {
        start();
        for (int gpu = 0; gpu < problem_.gpus; ++gpu)
            if (cost(rank, gpu) != kHidden)
                steps_[index(gpu)] = {cost(rank, gpu), -1, rank};
        relax();
        if (steps_[index(end_)].cost < kInfinite)
            follow(rank, end_);
    }

    // Fixes this rank's GPU: the first one that an optimal assignment allows, given the ranks that were fixed before.
    void fix_rank(int rank) {
        const int now = gpu_of_[index(rank)];
        fixed_[index(rank)] = true;
        for (int gpu = 0; gpu < now; ++gpu) {
            if (cost(rank, gpu) == kHidden)
                continue;
            start();
            steps_[index(gpu)] = {cost(rank, gpu) - cost(rank, now), -1, rank};
            relax();
            if (steps_[index(now)].cost == 0) {  // never less: the assignment is optimal
                follow(rank, now);
                return;
            }
        }
    }

    const std::vector<int>& result() const { return gpu_of_; }

  private:
    struct Step {
        std::int64_t cost = kInfinite;
        int from = -1;  // the node before, -1 at the start
        int rank = -1;  // moves from there to here
    };

    std::int64_t cost(int rank, int gpu) const {
        return problem_.cost[index(rank) * index(problem_.gpus) + index(gpu)];
    }
    void start() { steps_.assign(index(end_ + 1), {}); }

    // The cheapest step from each node to each other. A further rank on a GPU makes as many pairs as there are ranks.
    std::vector<Step> all_steps() const {
        const int nodes = end_ + 1;
        std::vector<Step> all(index(nodes) * index(nodes));
        for (int gpu = 0; gpu < end_; ++gpu) {
            const std::int64_t load = load_[index(gpu)];
            all[index(gpu * nodes + end_)] = {pair_ * load, gpu, -1};
            if (load > 0)
                all[index(end_ * nodes + gpu)] = {-pair_ * (load - 1), end_, -1};
        }
        for (int rank = 0; rank < problem_.ranks; ++rank) {
            const int from = gpu_of_[index(rank)];
            for (int to = 0; from >= 0 && !fixed_[index(rank)] && to < problem_.gpus; ++to) {
                Step& step = all[index(from * nodes + to)];
                if (to != from && cost(rank, to) != kHidden && cost(rank, to) - cost(rank, from) < step.cost)
                    step = {cost(rank, to) - cost(rank, from), from, rank};
            }
        }
        return all;
    }

    // Bellman and Ford: steps may have negative costs, but no round trip has.
    void relax() {
        const int nodes = end_ + 1;
        const std::vector<Step> all = all_steps();
        for (bool changed = true; changed;) {
            changed = false;
            for (int from = 0; from < nodes; ++from)
                for (int to = 0; steps_[index(from)].cost < kInfinite && to < nodes; ++to) {
                    const Step& step = all[index(from * nodes + to)];
                    const std::int64_t way = steps_[index(from)].cost + step.cost;
                    if (step.cost >= kInfinite || way >= steps_[index(to)].cost)
                        continue;
                    steps_[index(to)] = {way, from, step.rank};
                    changed = true;
                }
        }
    }

    // Does what the steps of the way to `last` say, and puts `rank` on the GPU at which it starts.
    void follow(int rank, int last) {
        int node = last;
        while (steps_[index(node)].from >= 0) {
            const Step& step = steps_[index(node)];
            if (node == end_)
                ++load_[index(step.from)];
            else if (step.from == end_)
                --load_[index(node)];
            else
                gpu_of_[index(step.rank)] = node;
            node = step.from;
        }
        gpu_of_[index(rank)] = node;
    }

    const Problem& problem_;
    const int end_;
    std::vector<int> gpu_of_;
    std::vector<int> load_;
    std::vector<bool> fixed_;
    std::vector<Step> steps_;
    std::int64_t pair_ = 1;
};

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

std::vector<int> assign(const Problem& problem) {
    Flow flow(problem);
    for (int rank = 0; rank < problem.ranks; ++rank)
        flow.assign_rank(rank);
    for (int rank = 0; rank < problem.ranks; ++rank)
        flow.fix_rank(rank);
    return flow.result();
}

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
