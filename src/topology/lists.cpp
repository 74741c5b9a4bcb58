#include "topology/lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include "settings/parse.hpp"

namespace swy::topology {

namespace {

constexpr int kMostGpus = 256;  // named in a topology that lists none

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos)
            return parts;
        text.remove_prefix(at + 1);
    }
}

std::string read_binding(std::string_view entry, Cpus& binding) {
    if (entry == "-" || Cpus::parse(entry, binding))
        return {};
    return fmt::format(
        "\"{}\" in the list of bindings is neither PUs, as in 0-5,48-53, nor - for a rank that is not bound", entry);
}

std::string read_visible(std::string_view entry, const Machine& machine, std::vector<int>& visible) {
    if (entry == "-")
        return {};
    for (const std::string_view number : split(entry, ',')) {
        int gpu = 0;
        if (!settings::parse_int(number, 0, std::numeric_limits<int>::max(), gpu))
            return fmt::format(
                "\"{}\" in the list of visible GPUs is neither numbers, as in 0,1, nor all, nor - for none", entry);
        const int gpus = machine.lists_pci || !machine.gpus.empty() ? static_cast<int>(machine.gpus.size()) : kMostGpus;
        if (gpu >= gpus)
            return gpus == 0 ? fmt::format("GPU {} is to be visible, but {} has no NVIDIA GPU", gpu, machine.from)
                             : fmt::format("GPU {} is to be visible, but {} has {}: 0 to {} in PCI order", gpu,
                                           machine.from, gpus, gpus - 1);
        if (std::find(visible.begin(), visible.end(), gpu) != visible.end())
            return fmt::format("GPU {} is twice in \"{}\", a list of visible GPUs", gpu, entry);
        visible.push_back(gpu);
    }
    return {};
}

std::string number_of_ranks(const Lists& lists, std::size_t bindings, std::size_t visibles, const Machine& machine,
                            int& ranks) {
    const std::size_t longer = std::max(bindings, visibles);
    ranks = lists.ranks;
    if (ranks == 0)
        ranks = static_cast<int>(longer > 1 ? longer : std::max<std::size_t>(1, machine.gpus.size()));
    if (ranks > kMostRanks)
        return fmt::format("{} ranks on one node are more than the {} that are allowed", ranks, kMostRanks);
    for (const auto& [name, number] : {std::pair("bindings", bindings), std::pair("visible GPUs", visibles)})
        if (number != 1 && number != static_cast<std::size_t>(ranks))
            return fmt::format(
                "the list of {} has {} entries for {} ranks: give one for each, separated by ;, or one "
                "for all",
                name, number, ranks);
    return {};
}

}  // namespace

std::string add_ranks(const Lists& lists, Machine& machine, NodeFacts& facts) {
    const auto bindings = split(lists.bind.empty() ? "-" : std::string_view(lists.bind), ';');
    const auto visibles = split(lists.visible.empty() ? "all" : std::string_view(lists.visible), ';');
    int ranks = 0;
    if (std::string problem = number_of_ranks(lists, bindings.size(), visibles.size(), machine, ranks);
        !problem.empty())
        return problem;
    std::vector<RankFacts> table(static_cast<std::size_t>(ranks));
    std::vector<bool> sees_all(table.size());
    int gpus = static_cast<int>(machine.gpus.size());
    if (gpus == 0 && !machine.lists_pci)
        gpus = 1;  // the topology has none, but CUDA may have one
    for (std::size_t rank = 0; rank < table.size(); ++rank) {
        if (std::string problem = read_binding(bindings[bindings.size() == 1 ? 0 : rank], table[rank].binding);
            !problem.empty())
            return problem;
        const std::string_view entry = visibles[visibles.size() == 1 ? 0 : rank];
        sees_all[rank] = entry == "all";
        if (sees_all[rank])
            continue;
        if (std::string problem = read_visible(entry, machine, table[rank].visible); !problem.empty())
            return problem;
        for (const int gpu : table[rank].visible)
            gpus = std::max(gpus, gpu + 1);
    }
    while (static_cast<int>(machine.gpus.size()) < gpus)
        machine.gpus.push_back({"unknown", "", "", {}, false});
    std::vector<int> all = lists.all;
    if (all.empty()) {
        all.resize(machine.gpus.size());
        std::iota(all.begin(), all.end(), 0);
    }
    for (std::size_t rank = 0; rank < table.size(); ++rank)
        if (sees_all[rank])
            table[rank].visible = all;
    facts = facts_of(machine);
    facts.ranks = std::move(table);
    return {};
}

}  // namespace swy::topology
