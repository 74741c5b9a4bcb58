#include "progress/operation.hpp"

#include <utility>

namespace swy::progress {

std::string Operation::describe() const {
    return std::string(name(call_)) + ": not complete";
}

void Operation::tell(Completion* completion) {
    completion_ = completion;
    if (completion_ != nullptr && done())
        completion_->completed(*this);
}

void Operation::finish(Outcome outcome) {
    if (done())
        return;
    outcome_ = std::move(outcome);
    done_.store(true, std::memory_order_release);
    if (completion_ != nullptr)
        completion_->completed(*this);
}

void Operation::fail(int mpi_class, std::string text) {
    Outcome outcome;
    outcome.mpi_class = mpi_class;
    outcome.text = std::move(text);
    finish(std::move(outcome));
}

}  // namespace swy::progress
