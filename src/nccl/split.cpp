// ncclCommSplit. While it runs NCCL accepts nothing else on the parent, and the child's handle exists when it is done
// (NCCL 2.18 to 2.28, init.cc: ncclCommInitChildComm): so parent and child both query the parent's state. In this file
// the parent's mutex guards the parent's handle, and a child has no handle until the split is done.
//
// The child shares no resources with the parent (splitShare). Whatever shares them runs in the order of its launches on
// each rank, the parent's operations and all children's together (NCCL guide, ncclCommSplit), and messages keep no
// order with the collectives of another communicator: two ranks that launched a message and a child's collective in
// different orders would wait for each other for ever.
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "call/hash.hpp"
#include "nccl/communicator.hpp"
#include "nccl/library.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

// The child's id: the same on all its members and different from that of any other communicator in the job.
std::uint64_t child_id(std::uint64_t parent, std::uint64_t split, int color) {
    return call::mix(call::mix(parent, split), static_cast<std::uint64_t>(color)) | 1;
}

// Tells whether the user shares resources by NCCL's own setting, which overrides any configuration.
bool shares_by_force() {
    const char* value = std::getenv("NCCL_COMM_SPLIT_SHARE_RESOURCES");
    return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

Communicator::Split::Split(int of_color) : color(of_color), deadline(settings::values().timeout) {}

std::shared_ptr<Communicator> Communicator::plan_split(const std::shared_ptr<Communicator>& parent, Group group,
                                                       int rank, int color) {
    std::shared_ptr<Communicator> child(
        new Communicator(std::move(group), rank, child_id(parent->id_, parent->splits_ + 1, color)));
    if (device::Stream::acquire(parent->context(), child->device_stream_) != 0)
        return nullptr;
    child->split_ = std::make_shared<Split>(color);
    child->parent_ = parent;
    child->split_off_ = true;
    child->made_by_ = "ncclCommSplit";
    return child;
}

bool Communicator::can_split() const {
    const Entries* nccl = load();
    return nccl != nullptr && nccl->CommSplit != nullptr && !shares_by_force() && usable() && !being_split() &&
           device_stream_.alive() && !in_transfer();
}

void Communicator::begin_split(const std::shared_ptr<Communicator>& child) {
    ++splits_;
    std::string why;
    {
        const auto lock = hold_handle();
        split_ = child != nullptr ? child->split_ : std::make_shared<Split>(NCCL_SPLIT_NOCOLOR);
        split_pending_ = true;
        if (child != nullptr)
            child->split_pending_ = true;
        if (!usable()) {
            why = why_unusable();
        } else {
            const device::ContextScope scope(context());
            ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
            config.blocking = 0;
            const ncclResult_t result = load()->CommSplit(handle_, split_->color, child != nullptr ? child->rank_ : 0,
                                                          &split_->handle, &config);
            if (result != ncclSuccess && result != ncclInProgress)
                why = fmt::format("ncclCommSplit failed: {}", describe(result, handle_));
        }
    }
    if (!why.empty())
        fail(why);
}

bool Communicator::splitting() {
    if (!being_split())
        return false;
    std::string why;
    {
        const auto lock = hold_handle();
        if (split_ == nullptr || !usable())
            return false;
        const int now = state();
        if (now == ncclSuccess) {
            end_split();
            return false;
        }
        if (now != ncclInProgress)
            why = fmt::format("ncclCommSplit failed: {}", describe(static_cast<ncclResult_t>(now), handle_));
        else if (split_->deadline.passed())
            why = "ncclCommSplit failed: SWITCHYARD_TIMEOUT has passed";
    }
    if (why.empty())
        why = failure_elsewhere();
    if (why.empty())
        return true;
    fail(why);
    return false;
}

// Called when NCCL has finished the split with success. The caller holds the handle.
void Communicator::end_split() {
    split_->made = true;
    if (!split_->wanted && split_->handle != nullptr) {
        const device::ContextScope scope(context());
        load()->CommAbort(split_->handle);
    }
    split_.reset();
    split_pending_ = false;
}

Communicator::Making Communicator::step_child(std::string& problem_text) {
    if (parent_->splitting())
        return Making::kUnderWay;
    const std::shared_ptr<Communicator> parent = std::exchange(parent_, nullptr);
    const std::shared_ptr<Split> split = std::exchange(split_, nullptr);
    split_pending_ = false;
    if (split->made) {
        adopt(split->handle);
        return Making::kMade;
    }
    const auto lock = parent->hold_handle();
    problem_text = parent->why_unusable();
    return Making::kFailed;
}

// Gives up a child that has no handle yet. If NCCL is still making it, the parent destroys it.
void Communicator::give_up_child() {
    const std::shared_ptr<Communicator> parent = std::exchange(parent_, nullptr);
    const std::shared_ptr<Split> split = std::exchange(split_, nullptr);
    split_pending_ = false;
    const auto lock = parent->hold_handle();
    split->wanted = false;
    if (split->made)
        adopt(split->handle);
}

}  // namespace swy::nccl
