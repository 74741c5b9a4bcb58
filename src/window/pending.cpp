#include "window/pending.hpp"

#include "progress/engine.hpp"

namespace swy::window {
namespace {

// MPI may have completed the request of a call before the program does.
bool is_over(const Pending::One& one) {
    return one.operation != nullptr && one.operation->done();
}

staging::Failure finish(Pending::One& one) {
    if (one.staging != nullptr)
        return one.staging->copy_out(true);
    progress::wait_for(*one.operation);  // its failure is its request's
    return {};
}

}  // namespace

void Pending::add(Node&& one) {
    const std::scoped_lock lock(mutex_);
    if (is_over(one.front()))
        return;
    std::erase_if(calls_, is_over);
    one.front().number = ++last_;
    calls_.splice(calls_.end(), one);
}

std::uint64_t Pending::last() const {
    const std::scoped_lock lock(mutex_);
    return last_;
}

// The lock is held while the copies are made: no thread that synchronises may go on before its own results are there,
// and the copies wait for nothing but the devices.
staging::Failure Pending::complete(int target, std::uint64_t last) {
    const std::scoped_lock lock(mutex_);
    staging::Failure first;
    for (auto one = calls_.begin(); one != calls_.end() && one->number <= last;) {
        if (target != kAllTargets && one->target != target) {
            ++one;
            continue;
        }
        staging::Failure failure = finish(*one);
        if (!first)
            first = std::move(failure);
        one = calls_.erase(one);
    }
    return first;
}

}  // namespace swy::window
