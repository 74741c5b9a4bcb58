#include "report/clock.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "real.hpp"

namespace swy::report::trace {

namespace {

constexpr int kReference = 0;
constexpr int kTag = 0;
constexpr int kQuestions = 10;  // the one with the shortest round trip is the most precise

std::int64_t count(Time time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

void answer_all(MPI_Comm comm, int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
        for (int i = 0; rank != kReference && i < kQuestions; ++i) {
            real::Recv(nullptr, 0, MPI_BYTE, rank, kTag, comm, MPI_STATUS_IGNORE);
            const std::int64_t mine = count(std::chrono::steady_clock::now());
            real::Send(&mine, 1, MPI_INT64_T, rank, kTag, comm);
        }
}

// Measures how far the root's clock is ahead, by messages to the root and back. The root is assumed to read its clock
// in the middle of a round trip; the error is at most half of that.
std::int64_t ask_root(MPI_Comm comm) {
    std::int64_t ahead = 0;
    std::int64_t doubt = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < kQuestions; ++i) {
        const std::int64_t asked = count(std::chrono::steady_clock::now());
        std::int64_t theirs = 0;
        real::Send(nullptr, 0, MPI_BYTE, kReference, kTag, comm);
        real::Recv(&theirs, 1, MPI_INT64_T, kReference, kTag, comm, MPI_STATUS_IGNORE);
        const std::int64_t half = (count(std::chrono::steady_clock::now()) - asked) / 2;
        if (half < doubt) {
            doubt = half;
            ahead = theirs - (asked + half);
        }
    }
    // Processes of one node share a clock: a difference within the uncertainty counts as none.
    return std::abs(ahead) <= doubt ? 0 : ahead;
}

}  // namespace

void Clock::ask(MPI_Comm comm) {
    int rank = 0;
    int ranks = 1;
    real::Comm_rank(comm, &rank);
    real::Comm_size(comm, &ranks);
    const Time began = std::chrono::steady_clock::now();
    if (rank == kReference)
        answer_all(comm, ranks);
    last_ = {began, rank == kReference ? 0 : ask_root(comm)};
    if (asked_)
        return;
    asked_ = true;
    first_ = last_;
    zero_ = count(began);
    real::Bcast(&zero_, 1, MPI_INT64_T, kReference, comm);
}

std::int64_t Clock::since_start(Time time) const {
    const double whole = std::chrono::duration<double>(last_.at - first_.at).count();
    const double part = whole > 0 ? std::chrono::duration<double>(time - first_.at).count() / whole : 0;
    const auto moved = std::llround(part * static_cast<double>(last_.ahead - first_.ahead));
    return count(time) + first_.ahead + moved - zero_;
}

}  // namespace swy::report::trace
