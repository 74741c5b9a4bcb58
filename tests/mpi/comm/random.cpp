// Communicators made, used and freed at random: split, duplicated (also while the parent is in use) and joined to
// intercommunicators by their ranks, or formed by the members alone (MPI_Comm_create_group). Ranks come at different
// times, and one that is the only member of two neighbouring steps has them in either order. Who is in each, in which
// order, and what its operations give is arithmetic.
// clang-format off
// launch: -n 4 --gpus 4 -- 120
// launch: -n 4 --gpus 4 --drawn-machine -x VGPU_JITTER=7 -- 90
// launch: -n 5 --gpus 5 -x VGPU_JITTER=5 -x SWITCHYARD_COMM_CACHE=2 -- 90
// launch: -n 4 --gpus 4 -x SWITCHYARD_EAGER=1 -x SWITCHYARD_P2P_COMM=shared -- 90
// launch: -n 4 --gpus 4 -x VGPU_NCCL_VERSION=2.18 -x VGPU_JITTER=9 -x SWITCHYARD_P2P_COMM=pair -- 90
// test-timeout: 240
// clang-format on
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "../../random_seed.hpp"
#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

constexpr int kMost = 9;  // communicators alive at a time

// As all ranks know it.
struct Known {
    std::vector<int> members;  // ranks of MPI_COMM_WORLD, in order
};

// One step, which its members make together.
struct Step {
    enum class Kind { kSplit, kDuplicate, kForm, kBridge, kUse, kSum, kBegin, kFree } kind;
    int on = 0;                     // a communicator's number
    int first_made = 0;             // number of the first one that is made
    std::vector<int> members;       // who makes the step
    std::vector<int> colors, keys;  // of a split, by rank in the parent
    std::vector<int> several;       // of kBegin: the communicators, one after the other
};

// The whole course, the same on all ranks.
class Course {
  public:
    explicit Course(unsigned seed) : random_(seed) {
        known_[0].members.resize(static_cast<std::size_t>(size));
        std::iota(known_[0].members.begin(), known_[0].members.end(), 0);
        alive_.push_back(0);
    }

    Step next() {
        const bool full = alive_.size() >= kMost;
        switch (full ? 6 : random_() % 9) {
            case 0:
            case 1:
                return split();
            case 2:
                return duplicate();
            case 3:
                return form();
            case 4:
                return step(Step::Kind::kSum, any());
            case 5:
                return begin();
            case 7:
                return step(Step::Kind::kBridge, any());
            case 6:
                if (alive_.size() > 1)
                    return free_one();
                [[fallthrough]];
            default:
                return step(Step::Kind::kUse, any());
        }
    }

    std::vector<Step> last() {
        std::vector<Step> all;
        while (alive_.size() > 1)
            all.push_back(free_one());
        return all;
    }

    const std::vector<int>& members(int number) const { return known_.at(number).members; }

  private:
    int any() { return alive_[random_() % alive_.size()]; }
    Step step(Step::Kind kind, int on) { return {kind, on, 0, members(on), {}, {}, {}}; }
    void add(std::vector<int> members) {
        known_[++made_].members = std::move(members);
        alive_.push_back(made_);
    }

    Step split() {
        Step made = step(Step::Kind::kSplit, any());
        made.first_made = made_ + 1;
        const std::vector<int> parent = made.members;
        const int colors = 1 + static_cast<int>(random_() % 3);
        for (std::size_t i = 0; i < parent.size(); ++i) {
            made.colors.push_back(static_cast<int>(random_() % 8) == 0 ? -1 : static_cast<int>(random_() % 3) % colors);
            made.keys.push_back(static_cast<int>(random_() % 4));
        }
        // MPI 4.0 section 7.4.2: in the order of the keys, then of the ranks in the parent.
        for (int color = 0; color < colors; ++color) {
            std::vector<std::size_t> chosen;
            for (std::size_t i = 0; i < parent.size(); ++i)
                if (made.colors[i] == color)
                    chosen.push_back(i);
            std::stable_sort(chosen.begin(), chosen.end(),
                             [&](std::size_t a, std::size_t b) { return made.keys[a] < made.keys[b]; });
            std::vector<int> members;
            for (const std::size_t i : chosen)
                members.push_back(parent[i]);
            add(std::move(members));
            if (known_[made_].members.empty())
                alive_.pop_back();
        }
        return made;
    }

    Step duplicate() {
        Step made = step(Step::Kind::kDuplicate, any());
        made.first_made = made_ + 1;
        add(made.members);
        return made;
    }

    Step form() {
        Step made = step(Step::Kind::kForm, 0);
        std::shuffle(made.members.begin(), made.members.end(), random_);
        made.members.resize(1 + random_() % made.members.size());
        made.first_made = made_ + 1;
        add(made.members);
        return made;
    }

    Step begin() {
        Step made = step(Step::Kind::kBegin, any());
        made.several = {made.on};
        for (const int other : alive_)
            if (other != made.on && random_() % 2 == 0)
                made.several.push_back(other);
        for (const int number : made.several)
            for (const int member : members(number))
                if (std::find(made.members.begin(), made.members.end(), member) == made.members.end())
                    made.members.push_back(member);
        return made;
    }

    Step free_one() {
        const std::size_t at = 1 + random_() % (alive_.size() - 1);  // not MPI_COMM_WORLD
        Step made = step(Step::Kind::kFree, alive_[at]);
        alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(at));
        return made;
    }

    std::mt19937 random_;
    std::map<int, Known> known_;
    std::vector<int> alive_;
    int made_ = 0;
};

// What this rank has of the communicators.
class Rank {
  public:
    Rank(const Course& course, unsigned seed)
        : course_(course), random_(seed * 31 + static_cast<unsigned>(rank)), all_{{0, MPI_COMM_WORLD}} {}

    static bool has_part(const Step& step) {
        return std::find(step.members.begin(), step.members.end(), rank) != step.members.end();
    }

    void make(const Step& step) {
        if (!has_part(step))
            return;
        if (random_() % 6 == 0)
            usleep(random_() % 5000);
        switch (step.kind) {
            case Step::Kind::kSplit:
                return split(step);
            case Step::Kind::kDuplicate:
                return duplicate(step);
            case Step::Kind::kBridge:
                return bridge(all_[step.on]);
            case Step::Kind::kForm:
                return form(step);
            case Step::Kind::kUse:
                failures += comm_test::Use(all_[step.on], "used").all();
                return;
            case Step::Kind::kSum:
                failures += comm_test::Use(all_[step.on], "summed").just_sum();
                return;
            case Step::Kind::kBegin:
                return begin(step);
            case Step::Kind::kFree:
                MPI_Comm_free(&all_[step.on]);
                all_.erase(step.on);
        }
    }

    bool flips() { return random_() % 2 == 0; }

  private:
    void split(const Step& step) {
        const auto& parent = course_.members(step.on);
        const auto here = static_cast<std::size_t>(std::find(parent.begin(), parent.end(), rank) - parent.begin());
        const int color = step.colors[here];
        MPI_Comm made = MPI_COMM_NULL;
        MPI_Comm_split(all_[step.on], color < 0 ? MPI_UNDEFINED : color, step.keys[here], &made);
        if ((color < 0) != (made == MPI_COMM_NULL)) {
            ++failures;
            std::fprintf(stderr, "rank %d: a communicator, or none, of color %d\n", rank, color);
        }
        if (made == MPI_COMM_NULL)
            return;
        all_[step.first_made + color] = made;
        check(step.first_made + color);
    }

    // Every other one without blocking, while the parent is in use.
    void duplicate(const Step& step) {
        MPI_Comm& made = all_[step.first_made];
        if (step.first_made % 2 == 0) {
            MPI_Comm_dup(all_[step.on], &made);
        } else {
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Comm_idup(all_[step.on], &made, &request);
            failures += comm_test::Use(all_[step.on], "while it is duplicated").just_sum();
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        check(step.first_made);
    }

    // Ranks of even and odd number in the parent: an intercommunicator between them, and what is merged of it.
    static void bridge(MPI_Comm parent) {
        int here = 0, count = 0;
        MPI_Comm_rank(parent, &here);
        MPI_Comm_size(parent, &count);
        if (count < 2)
            return;
        const bool even = here % 2 == 0;
        MPI_Comm side = MPI_COMM_NULL, between = MPI_COMM_NULL, merged = MPI_COMM_NULL;
        MPI_Comm_split(parent, even ? 0 : 1, here, &side);
        MPI_Intercomm_create(side, 0, parent, even ? 1 : 0, 9, &between);
        failures += comm_test::Use(between, "between two sides").all(even);
        MPI_Intercomm_merge(between, even ? 1 : 0, &merged);
        MPI_Comm_free(&between);
        failures += comm_test::Use(merged, "two sides merged").just_sum();
        failures += comm_test::Use(side, "a side").just_sum();
        MPI_Comm_free(&merged);
        MPI_Comm_free(&side);
    }

    void form(const Step& step) {
        MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, static_cast<int>(step.members.size()), step.members.data(), &group);
        MPI_Comm_create_group(MPI_COMM_WORLD, group, step.first_made % 1000, &all_[step.first_made]);
        MPI_Group_free(&group);
        MPI_Group_free(&world);
        check(step.first_made);
    }

    // Is it that of these ranks, in their order?
    void check(int number) {
        const auto& members = course_.members(number);
        std::vector<int> found(members.size());
        int count = 0;
        MPI_Comm_size(all_[number], &count);
        if (static_cast<std::size_t>(count) == members.size())
            MPI_Allgather(&rank, 1, MPI_INT, found.data(), 1, MPI_INT, all_[number]);
        if (found == members)
            return;
        ++failures;
        std::fprintf(stderr, "rank %d: communicator %d has other members than it was made of\n", rank, number);
    }

    // Sums on several communicators, begun here in any order.
    void begin(const Step& step) {
        struct Sum {
            gpu::Memory from, to;
            double wanted;
        };
        std::vector<int> mine;
        for (const int number : step.several)
            if (all_.count(number) != 0)
                mine.push_back(number);
        std::shuffle(mine.begin(), mine.end(), random_);
        std::vector<Sum> sums;
        std::vector<MPI_Request> requests(mine.size());
        for (const int number : mine) {
            const auto& members = course_.members(number);
            const double wanted =
                std::accumulate(members.begin(), members.end(), 0.0) + number * static_cast<double>(members.size());
            sums.push_back({filled(rank + number), filled(-1), wanted});
        }
        for (std::size_t i = 0; i < mine.size(); ++i)
            MPI_Iallreduce(sums[i].from.at(0), sums[i].to.at(0), comm_test::kCount, MPI_DOUBLE, MPI_SUM, all_[mine[i]],
                           &requests[i]);
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        for (std::size_t i = 0; i < mine.size(); ++i) {
            const std::vector<std::byte> bytes = sums[i].to.read();
            std::array<double, 2> ends{};
            std::memcpy(&ends[0], bytes.data(), sizeof(double));
            std::memcpy(&ends[1], bytes.data() + bytes.size() - sizeof(double), sizeof(double));
            if (ends[0] == sums[i].wanted && ends[1] == sums[i].wanted)
                continue;
            ++failures;
            std::fprintf(stderr, "rank %d: MPI_Iallreduce on communicator %d: %g and %g, not %g\n", rank, mine[i],
                         ends[0], ends[1], sums[i].wanted);
        }
    }

    static gpu::Memory filled(double value) {
        const std::vector<double> values(comm_test::kCount, value);
        std::vector<std::byte> bytes(values.size() * sizeof(double));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return gpu::Memory(gpu::Kind::kDevice, bytes);
    }

    const Course& course_;
    std::mt19937 random_;
    std::map<int, MPI_Comm> all_;
};

bool uses(const Step& step, int number) {
    return step.on == number || std::find(step.several.begin(), step.several.end(), number) != step.several.end();
}

// Does this rank, and it alone, make both, and neither needs the other? Then nothing waits for their order.
bool alone_in_both(const Step& a, const Step& b) {
    const auto in_both = [&](int member) {
        return std::find(b.members.begin(), b.members.end(), member) != b.members.end();
    };
    const auto made_by_first = [&](int number) { return a.first_made != 0 && number >= a.first_made; };
    const bool uses_new = made_by_first(b.on) || std::any_of(b.several.begin(), b.several.end(), made_by_first);
    const bool frees_used = b.kind == Step::Kind::kFree && uses(a, b.on);
    return Rank::has_part(a) && Rank::has_part(b) && !uses_new && !frees_used &&
           std::count_if(a.members.begin(), a.members.end(), in_both) == 1;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int pairs = argc > 1 ? std::atoi(argv[1]) : 100;
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d pairs of steps from seed %u\n", pairs, seed);
    Course course(seed);
    Rank self(course, seed);
    for (int i = 0; i < pairs && failures == 0; ++i) {
        const Step first = course.next(), second = course.next();
        const bool turned = alone_in_both(first, second) && self.flips();
        self.make(turned ? second : first);
        self.make(turned ? first : second);
    }
    for (const Step& step : course.last())
        self.make(step);
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
