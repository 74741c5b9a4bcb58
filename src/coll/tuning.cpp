#include "coll/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "call/hash.hpp"
#include "call/job.hpp"
#include "comm/state.hpp"
#include "comm/tuned.hpp"
#include "real.hpp"
#include "settings/settings.hpp"
#include "settings/tuning_file.hpp"

namespace swy::coll {

namespace {

struct Table {  // sent as bytes
    comm::TunedFor machine;
    std::array<std::uint64_t, kCallIds> thresholds{};  // by the call's blocking form
};
static_assert(std::is_trivially_copyable_v<Table>);

struct Known {
    Table table;
    std::string gpu;  // on rank 0 alone
    bool overruled = false;
};
Known& known() {
    static Known the_known;
    return the_known;
}

void set(Table& table, const std::string& name, std::size_t bytes) {
    for (int id = 0; id < kCallIds; ++id)
        if (const CallFacts& call = facts(static_cast<CallId>(id)); call.name == name || call.name == name + "_c")
            table.thresholds[static_cast<std::size_t>(id)] = bytes;
}

std::string read_table() {
    settings::TuningFile file;
    std::string problem = settings::read_tuning(settings::values().tuning_file, file);
    if (!problem.empty())
        return "SWITCHYARD_TUNING: " + problem;
    const char* threshold_named = std::getenv("SWITCHYARD_NCCL_THRESHOLD");
    known().overruled = threshold_named != nullptr && *threshold_named != '\0';
    known().gpu = file.gpu;
    if (known().overruled)
        return {};
    Table& table = known().table;
    table.machine = {file.ranks, file.nodes, settings::nccl_code(file.nccl), call::fnv1a(file.gpu)};
    table.thresholds.fill(settings::values().nccl_threshold);
    for (const settings::TunedCall& call : file.calls)
        set(table, call.name, call.threshold);
    return {};
}

}  // namespace

int share_tuning(std::string& problem) {
    call::threshold = settings::values().nccl_threshold;
    known() = {};
    comm::tuned_for = {};
    if (!settings::values().tuning)
        return MPI_SUCCESS;
    int rank = 0;
    real::Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        problem = read_table();
    Table& table = known().table;
    if (const int rc = real::Bcast(&table, sizeof table, MPI_BYTE, 0, MPI_COMM_WORLD); rc != MPI_SUCCESS)
        return rc;
    comm::tuned_for = table.machine;
    if (table.machine.ranks != 0)
        call::threshold =
            std::min(call::threshold,
                     static_cast<std::size_t>(*std::min_element(table.thresholds.begin(), table.thresholds.end())));
    return MPI_SUCCESS;
}

std::size_t threshold_of(const Call& call) {
    const Table& table = known().table;
    if (table.machine.ranks == 0)
        return call::threshold;
    const std::size_t everywhere = settings::values().nccl_threshold;
    const comm::State* state = call.owner.comm != MPI_COMM_NULL ? comm::of(call.owner.comm) : nullptr;
    if (state == nullptr || state->inter || state->size != table.machine.ranks || state->tuning == comm::Fit::kOther)
        return everywhere;
    const std::size_t tuned = table.thresholds[static_cast<std::size_t>(blocking_form(call.id))];
    // Before a set-up it is not known whether the table is in force. The lower threshold counts then, so that a set-up
    // is reached, whichever of the two is the higher.
    return state->tuning == comm::Fit::kFits ? tuned : std::min(tuned, everywhere);
}

std::string tuning_account() {
    if (!settings::values().tuning)
        return {};
    const std::string& file = settings::values().tuning_file;
    if (known().overruled)
        return fmt::format("{} is not used: SWITCHYARD_NCCL_THRESHOLD is set", file);
    const comm::TunedFor& machine = comm::tuned_for;
    const std::string is_for =
        fmt::format("it is for {} ranks on {} node{} with {} and NCCL {}.{}.{}", machine.ranks, machine.nodes,
                    machine.nodes == 1 ? "" : "s", known().gpu, machine.nccl_version / 10000,
                    machine.nccl_version / 100 % 100, machine.nccl_version % 100);
    std::string differs;
    switch (comm::last_fit(differs)) {
        case comm::Fit::kFits:
            return fmt::format("{} is used", file);
        case comm::Fit::kOther:
            return fmt::format("{} is not used: {}, and here {}", file, is_for, differs);
        case comm::Fit::kNotAsked:
            break;
    }
    return fmt::format("{} is not used: {}, and no communicator of {} ranks used NCCL", file, is_for, machine.ranks);
}

}  // namespace swy::coll
