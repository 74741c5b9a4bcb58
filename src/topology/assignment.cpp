#include "topology/assignment.hpp"

#include <algorithm>
#include <limits>

namespace swy::topology {

namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

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

    static std::size_t index(int number) { return static_cast<std::size_t>(number); }
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

}  // namespace

std::vector<int> assign(const Problem& problem) {
    Flow flow(problem);
    for (int rank = 0; rank < problem.ranks; ++rank)
        flow.assign_rank(rank);
    for (int rank = 0; rank < problem.ranks; ++rank)
        flow.fix_rank(rank);
    return flow.result();
}

}  // namespace swy::topology
