#include "carrier/staged/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carrier/staged/operands.hpp"

namespace swy::carrier::staged {
namespace {

// What MPI gets in place of a device address that it has no business with (no elements, not significant on this rank).
constexpr std::size_t kMostOperands = 8;
alignas(64) std::byte nowhere[kMostOperands][64];

// Open MPI 5.0's hierarchical collectives (coll/han, which it takes between hosts) read a rank's own block by the wrong
// one of its two types in MPI_Gather and MPI_Allgather (seen in 5.0.11, in a host program alone): there both buffers
// are packed, into types that are the same bytes, or neither.
bool mixes_types(CallId id) {
    return OMPI_MAJOR_VERSION >= 5 && (id == CallId::kGather || id == CallId::kAllgather);
}

}  // namespace

Staging::~Staging() {
    if (copies_)
        copies_->finish();
    if (copies_ && copies_->abandoned())  // the device still works on this memory
        new std::vector<Shadow>(std::move(shadows_));
}

Failure Staging::prepare(const Call& call) {
    operands_.assign(call.operands.begin(), call.operands.end());
    std::vector<std::size_t> replaced;  // the operand of each shadow
    std::size_t with_data = 0;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
        const Operand& operand = call.operands[i];
        if (operand.address == MPI_IN_PLACE)
            continue;
        Data data = data_of(call, operand);
        if (data.empty()) {
            if (!device::on_device(operand.address))
                continue;
            if (operand.shape == Shape::kAddress)
                return {MPI_ERR_BUFFER, fmt::format("{}: a buffer whose length the call does not say is device memory, "
                                                    "and cannot be copied to the host and back",
                                                    name(call_))};
            operands_[i].address = nowhere[i % kMostOperands];
            continue;
        }
        ++with_data;
        const Survey seen = survey(operand, data, places_);
        if (!seen.device)
            continue;
        replaced.push_back(i);
        shadows_.emplace_back(operand, std::move(data), seen);
    }
    const bool as_it_is = mixes_types(call.id) && !packed_alike(with_data);
    const auto form = as_it_is ? Shadow::Form::kAsItIs : Shadow::Form::kBetter;
    for (std::size_t s = 0; s < shadows_.size(); ++s) {
        if (const std::string why = shadows_[s].prepare(use_ == Use::kSeldom, form); !why.empty())
            return {MPI_ERR_NO_MEM,
                    fmt::format("{}: a buffer on the device cannot be copied to the host: {}", name(call_), why)};
        operands_[replaced[s]] = shadows_[s].substitute();
    }
    return {};
}

// Whether all `operands` have a shadow that is better packed, in elements of one size.
bool Staging::packed_alike(std::size_t operands) const {
    return shadows_.size() == operands && std::all_of(shadows_.begin(), shadows_.end(), [this](const Shadow& shadow) {
               return shadow.better_packed() && shadow.element() == shadows_.front().element();
           });
}

device::Result Staging::queue(Direction direction, bool all) {
    for (const Shadow& shadow : shadows_) {
        if (!all && !shadow.kept())  // MPI failed before it wrote all of it: the device keeps what it had
            continue;
        const device::Result result =
            direction == Direction::kToHost ? shadow.copy_in(places_, *copies_) : shadow.copy_out(places_, *copies_);
        if (result != 0)
            return result;
    }
    return 0;
}

device::Result Staging::queue_in(Back back) {
    places_ = {};  // of a persistent call, memory may have come and gone
    copies_.emplace(Copies::After::kProgram);
    device::Result result = queue(Direction::kToHost, true);
    for (const Shadow& shadow : shadows_)
        if (result == 0 && back == Back::kLater)
            result = shadow.await_program(places_, *copies_);
    return result;
}

Failure Staging::begin_copy_in() {
    return failed(Direction::kToHost, queue_in(Back::kLater));
}

Failure Staging::copy_in(Back back) {
    const device::Result result = queue_in(back);
    const device::Result finished = copies_->finish();
    return failed(Direction::kToHost, result != 0 ? result : finished);
}

Failure Staging::copy_out(bool all) {
    const device::Result result = queue(Direction::kToDevice, all);
    const device::Result finished = copies_->finish();
    return failed(Direction::kToDevice, result != 0 ? result : finished);
}

Failure Staging::begin_copy_out(bool all) {
    copies_.emplace(Copies::After::kNothing);
    return failed(Direction::kToDevice, queue(Direction::kToDevice, all));
}

Failure Staging::query(bool& done, Direction direction) {
    return failed(direction, copies_->query(done));
}

Failure Staging::failed(Direction direction, device::Result result) const {
    if (result == 0)
        return {};
    return {MPI_ERR_OTHER, fmt::format("{}: copying {} failed: {}", name(call_),
                                       direction == Direction::kToHost ? "the buffers from the device to host memory"
                                                                       : "the result from host memory to the device",
                                       Copies::describe(result))};
}

}  // namespace swy::carrier::staged
