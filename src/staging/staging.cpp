#include "staging/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "comm/where.hpp"
#include "pack/operands.hpp"
#include "progress/keep_until.hpp"
#include "staging/staged.hpp"

namespace swy::staging {
namespace {

// What MPI gets in place of a device address that it does not use (no elements, not significant on this rank).
constexpr std::size_t kMostOperands = 8;
alignas(64) std::byte nowhere[kMostOperands][64];

// Open MPI 5.0's hierarchical collectives (coll/han, which it uses between hosts) read a rank's own block by the wrong
// one of its two types in MPI_Gather and MPI_Allgather (seen in 5.0.11, in a host program alone): there both buffers
// are packed, into types that are the same bytes, or neither.
bool mixes_types(CallId id) {
    return OMPI_MAJOR_VERSION >= 5 && (id == CallId::kGather || id == CallId::kAllgather);
}

}  // namespace

Staging::~Staging() {
    if (copies_)
        copies_->finish();
    end_copies();
    if (abandoned_)  // the device still works on this memory
        progress::keep_for_ever(std::move(mirrors_));
}

void Staging::end_copies() {
    abandoned_ |= copies_ && copies_->abandoned();
    copies_.reset();
}

Failure Staging::prepare(const Call& call) {
    operands_.assign(call.operands.begin(), call.operands.end());
    std::vector<std::size_t> replaced;  // the operand of each mirror
    std::size_t with_data = 0;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
        const Operand& operand = call.operands[i];
        if (operand.address == MPI_IN_PLACE)
            continue;
        pack::Data data = pack::data_of(call, operand);
        if (data.empty()) {
            if (!device::on_device(operand.address))
                continue;
            if (operand.shape == Shape::kAddress)
                return failed(MPI_ERR_BUFFER,
                              "a buffer whose length the call does not say is device memory, and "
                              "cannot be copied to the host and back");
            operands_[i].address = nowhere[i % kMostOperands];
            continue;
        }
        ++with_data;
        const Survey seen = survey(operand, data, places_);
        if (!seen.device)
            continue;
        replaced.push_back(i);
        mirrors_.emplace_back(operand, std::move(data), seen);
    }
    const bool as_it_is = mixes_types(call.id) && !packed_alike(with_data);
    const auto form = as_it_is ? HostMirror::Form::kAsItIs : HostMirror::Form::kBetter;
    for (std::size_t s = 0; s < mirrors_.size(); ++s) {
        if (const std::string why = mirrors_[s].prepare(use_, form); !why.empty())
            return failed(MPI_ERR_NO_MEM, fmt::format("a buffer on the device cannot be copied to the host: {}", why));
        operands_[replaced[s]] = mirrors_[s].substitute();
    }
    return {};
}

// Returns whether all `operands` have a mirror that is better packed, in elements of one size.
bool Staging::packed_alike(std::size_t operands) const {
    return mirrors_.size() == operands &&
           std::all_of(mirrors_.begin(), mirrors_.end(), [this](const HostMirror& mirror) {
               return mirror.better_packed() && mirror.element() == mirrors_.front().element();
           });
}

bool Staging::go_on(comm::Contribution& part, const Failure& failure) {
    const std::string_view call = name(blocking_form(call_));
    const bool of_file = call.starts_with("MPI_File_") && (call.ends_with("_all") || call.ends_with("_ordered"));
    if (of_file)
        for (Operand& operand : operands_)
            operand.count = 0;
    else if (collective(call_))
        part.fail(failure.why);
    return of_file || collective(call_);
}

device::Result Staging::queue(pack::Direction direction, bool all) {
    for (const HostMirror& mirror : mirrors_) {
        if (!all && !mirror.kept())  // MPI failed before it wrote all of it: the device keeps what it had
            continue;
        const device::Result result = direction == pack::Direction::kToHost ? mirror.copy_in(places_, *copies_)
                                                                            : mirror.copy_out(places_, *copies_);
        if (result != 0)
            return result;
    }
    return 0;
}

device::Result Staging::queue_in(Back back) {
    places_ = {};  // a persistent call's memory may have been freed and allocated since
    end_copies();
    copies_.emplace(pack::Copies::After::kProgram);
    device::Result result = queue(pack::Direction::kToHost, true);
    for (const HostMirror& mirror : mirrors_)
        if (result == 0 && back == Back::kLater)
            result = mirror.await_program(places_, *copies_);
    return result;
}

Failure Staging::begin_copy_in() {
    return failed(pack::Direction::kToHost, queue_in(Back::kLater));
}

Failure Staging::copy_in(Back back) {
    const device::Result result = queue_in(back);
    const device::Result finished = copies_->finish();
    return failed(pack::Direction::kToHost, result != 0 ? result : finished);
}

Failure Staging::copy_out(bool all) {
    if (!copies_)
        copies_.emplace(pack::Copies::After::kNothing);
    const device::Result result = queue(pack::Direction::kToDevice, all);
    const device::Result finished = copies_->finish();
    return failed(pack::Direction::kToDevice, result != 0 ? result : finished);
}

Failure Staging::begin_copy_out(bool all) {
    end_copies();
    copies_.emplace(pack::Copies::After::kNothing);
    return failed(pack::Direction::kToDevice, queue(pack::Direction::kToDevice, all));
}

Failure Staging::query(bool& done, pack::Direction direction) {
    return failed(direction, copies_->query(done));
}

Failure Staging::failed(pack::Direction direction, device::Result result) const {
    if (result == 0)
        return {};
    return failed(MPI_ERR_OTHER,
                  fmt::format("copying {} failed: {}",
                              direction == pack::Direction::kToHost ? "the buffers from the device to host memory"
                                                                    : "the result from host memory to the device",
                              pack::Copies::describe(result)));
}

Failure Staging::failed(int mpi_class, const std::string& why) const {
    return {mpi_class, why, comm::where(call_, owner_)};
}

Failure failure_elsewhere(CallId call, const Owner& owner, const comm::Contribution& part) {
    const std::string why = part.failure_elsewhere();
    return why.empty() ? Failure{} : Failure{MPI_ERR_OTHER, why, comm::where(call, owner)};
}

}  // namespace swy::staging
