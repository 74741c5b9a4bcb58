#include "comm/tuned.hpp"

#include <fmt/format.h>

#include <mutex>

namespace swy::comm {

constinit TunedFor tuned_for;

namespace {

struct Last {
    std::mutex mutex;
    Fit fit = Fit::kNotAsked;
    std::string what_differs;
};
Last& last() {
    static auto* the_last = new Last;
    return *the_last;
}

std::string what_differs(const Machine& machine, const std::string& gpu_name) {
    if (machine.gpu != tuned_for.gpu)
        return machine.gpu == 0 ? "the ranks have GPUs of different models"
                                : fmt::format("the GPUs are of another model, {}", gpu_name);
    if (machine.nccl_version != tuned_for.nccl_version)
        return machine.nccl_version == 0
                   ? "the ranks have different versions of NCCL"
                   : fmt::format("NCCL is another version, {}.{}.{}", machine.nccl_version / 10000,
                                 machine.nccl_version / 100 % 100, machine.nccl_version % 100);
    if (machine.nodes != tuned_for.nodes)
        return fmt::format("the ranks are on {} node{}", machine.nodes, machine.nodes == 1 ? "" : "s");
    return {};
}

}  // namespace

Fit fits(const Machine& machine, const std::string& gpu_name) {
    std::string differs = what_differs(machine, gpu_name);
    const std::scoped_lock lock(last().mutex);
    last().fit = differs.empty() ? Fit::kFits : Fit::kOther;
    last().what_differs = std::move(differs);
    return last().fit;
}

Fit last_fit(std::string& what_differs) {
    const std::scoped_lock lock(last().mutex);
    what_differs = last().what_differs;
    return last().fit;
}

}  // namespace swy::comm
