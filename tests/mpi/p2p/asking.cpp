// What many operations that only wait for MPI's answer cost each turn of its progress: a few questions, however many
// they are, and the oldest one's among them. Each one's turn comes, one that is busy is stepped in every turn, and what
// MPI answers in order is found in order at once.
// launch: -n 1 --plain
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace {

using namespace swy;

int failures = 0;
void expect(bool right, const char* what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s\n", what);
    ++failures;
}

int questions = 0;

// Asks until it is answered, and then is busy for some steps.
class Asks final : public progress::Operation {
  public:
    explicit Asks(int busy) : Operation(CallId::kIrecv, MPI_COMM_SELF), busy_(busy) {}
    bool only_asks() const override { return !asked_; }
    bool step() override {
        ++steps;
        if (asked_)
            return work();
        if (!progress::may_poll())
            return false;
        ++questions;
        ++times;
        asked_ = answered;
        return asked_ && (work() || true);
    }
    bool answered = false;
    int times = 0, steps = 0;

  private:
    bool work() {
        if (busy_-- <= 0)
            finish({});
        return true;
    }
    bool asked_ = false;
    int busy_;
};

using Many = std::vector<std::shared_ptr<Asks>>;

Many begin(int count, int busy) {
    Many made;
    const progress::Hold hold;
    for (int i = 0; i < count; ++i) {
        made.push_back(std::make_shared<Asks>(busy));
        progress::add(made.back());
    }
    return made;
}

int turn() {
    const int before = questions;
    progress::progress();
    return questions - before;
}

void end(const Many& all) {
    for (const auto& one : all)
        one->answered = true;
    for (int i = 0; i < 100000 && progress::alive.load() != 0; ++i)
        turn();
    expect(progress::alive.load() == 0, "all end once they are answered");
}

void few_questions() {
    constexpr int kMost = 4;
    for (const int count : {1, 2, 3, 5, 64, 1000}) {
        const Many all = begin(count, 0);
        int most = 0;
        const int turns = 2 * count + 4;
        for (int i = 0; i < turns; ++i)
            most = std::max(most, turn());
        expect(most <= kMost, "a turn has few questions");
        expect(all[0]->times >= turns, "the oldest is asked about in every turn");
        for (const auto& one : all)
            expect(one->times >= 1, "each one's turn comes");
        end(all);
    }
}

void in_order() {
    const Many all = begin(64, 0);
    for (const auto& one : all)
        one->answered = true;
    turn();
    for (const auto& one : all)
        expect(one->done(), "what is answered in order is found in one turn");
    end(all);
}

void out_of_order() {
    const Many all = begin(64, 0);
    for (int i = 63; i > 0; --i) {
        all[static_cast<std::size_t>(i)]->answered = true;
        for (int k = 0; k < 64 && !all[static_cast<std::size_t>(i)]->done(); ++k)
            turn();
        expect(all[static_cast<std::size_t>(i)]->done(), "one in the midst is found within a turn for each");
    }
    expect(!all[0]->done(), "what is not answered is not done");
    end(all);
}

void busy_beside() {
    const Many all = begin(64, 1000);
    all[40]->answered = true;
    while (all[40]->only_asks())
        turn();
    const int steps = all[40]->steps;
    constexpr int kTurns = 20;
    for (int i = 0; i < kTurns; ++i)
        turn();
    expect(all[40]->steps >= steps + kTurns, "one that is busy is stepped in every turn");
    end(all);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int up = 0;
    real::Initialized(&up);  // the engine asks where this function is
    progress::start_engine();
    few_questions();
    in_order();
    out_of_order();
    busy_beside();
    progress::stop_engine();
    MPI_Finalize();
    if (failures == 0)
        std::printf("%d questions, 0 failures\n", questions);
    return failures == 0 ? 0 : 1;
}
