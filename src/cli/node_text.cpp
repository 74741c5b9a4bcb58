#include <fmt/format.h>
#include <langinfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "cli/node.hpp"
#include "topology/devices.hpp"
#include "topology/order.hpp"

namespace swy::cli {

using topology::Choice;
using topology::Reach;

namespace {

constexpr std::size_t kWidestBinding = 24;

std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

struct Line {
    std::string left, right;
};

struct Strokes {  // of which a tree is drawn; all have three columns
    const char *inner, *last, *passing;
};

// Chooses the characters as lstopo does: box drawing ones in a UTF-8 locale alone, since other terminals cannot show
// them.
Strokes strokes_of_locale() {
    const bool utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
    return utf8 ? Strokes{"├─ ", "└─ ", "│  "} : Strokes{"|- ", "`- ", "|  "};
}

// One branch of the tree: its devices first, then its parts.
void branch(const Node& node, const Part& part, const std::string& indent, std::vector<Line>& lines) {
    static const Strokes strokes = strokes_of_locale();
    const std::size_t children = part.gpus.size() + part.nics.size() + part.parts.size();
    std::size_t done = 0;
    const auto edge = [&] { return std::string(++done == children ? strokes.last : strokes.inner); };
    for (const int gpu : part.gpus)
        lines.push_back({indent + edge() + gpu_title(node, gpu), ranks_on(node, gpu)});
    for (const int nic : part.nics)
        lines.push_back({indent + edge() + nic_title(node, nic), ""});
    for (const Part& inner : part.parts) {
        const std::string corner = edge();
        lines.push_back({indent + corner + inner.title, ""});
        branch(node, inner, indent + (done == children ? "   " : strokes.passing), lines);
    }
}

std::string tree(const Node& node) {
    const Part all = drawn(node.machine);
    std::vector<Line> lines{{all.title, ""}};
    branch(node, all, "", lines);
    std::size_t widest = 0;
    for (const Line& line : lines)
        widest = line.right.empty() ? widest : std::max(widest, columns(line.left));
    std::string text;
    for (const Line& line : lines) {
        text += line.left;
        if (!line.right.empty())
            text += std::string(widest - columns(line.left), ' ') + "  <- " + line.right;
        text += '\n';
    }
    return text;
}

std::string matrix(std::string_view title, const std::vector<std::string>& names, const auto& value) {
    std::string text = fmt::format("\n{}\n{:>12}", title, "");
    for (const std::string& name : names)
        text += fmt::format(" {:>7}", name);
    text += '\n';
    for (std::size_t i = 0; i < names.size(); ++i) {
        text += fmt::format("{:>12}", names[i]);
        for (std::size_t j = 0; j < names.size(); ++j)
            text += fmt::format(" {:>7}", value(i, j));
        text += '\n';
    }
    return text;
}

// Of NVLink between any two GPUs, where it is the same; 0 where it differs.
std::uint64_t bandwidth_of_all(const topology::Machine& machine) {
    const std::size_t gpus = machine.gpus.size();
    for (std::size_t i = 0; i < gpus; ++i)
        for (std::size_t j = 0; j < gpus; ++j)
            if (i != j && machine.links[i * gpus + j] != machine.links[1])
                return 0;
    return machine.links[1];
}

std::string distances(const Node& node) {
    std::string text;
    const auto& machine = node.machine;
    if (machine.nodes.size() > 1 && !machine.latency.empty()) {
        std::vector<std::string> names;
        for (const auto& numa : machine.nodes)
            names.push_back(fmt::format("node {}", numa.number));
        text += matrix("NUMA latency, relative", names, [&](std::size_t i, std::size_t j) {
            return fmt::format("{}", machine.latency[i * names.size() + j]);
        });
    }
    if (machine.gpus.size() > 1 && !machine.links.empty()) {
        std::vector<std::string> names;
        for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
            names.push_back(fmt::format("GPU {}", gpu));
        if (const auto bandwidth = bandwidth_of_all(machine); bandwidth != 0)
            text += fmt::format("\nNVLink: {} GB/s between any two GPUs\n", bandwidth / 1000);
        else
            text += matrix("NVLink, GB/s", names, [&](std::size_t i, std::size_t j) {
                const auto one = machine.links[i * names.size() + j];
                return one == 0 ? std::string("-") : fmt::format("{}", one / 1000);
            });
    }
    return text;
}

std::string shortened(const std::string& text) {
    return text.size() <= kWidestBinding ? text : text.substr(0, kWidestBinding - 3) + "...";
}

std::string table(const Node& node) {
    std::string text = fmt::format("\n{:>4}  {:<{}}  {:<12}  {:>7}  {}\n", "rank", "bound to", kWidestBinding, "GPU",
                                   "ordinal", "NIC");
    for (std::size_t rank = 0; rank < node.choices.size(); ++rank) {
        const Choice& choice = node.choices[rank];
        const std::string binding = node.facts.ranks[rank].binding.text();
        std::string pci = "-";
        std::string nic = "-";
        if (choice.gpu >= 0) {
            pci = node.machine.gpus[static_cast<std::size_t>(choice.gpu)].pci;
            const int near = topology::network_device(node.machine, choice.gpu);
            nic = near >= 0 ? node.machine.nics[static_cast<std::size_t>(near)].name : "-";
        }
        text += fmt::format("{:>4}  {:<{}}  {:<12}  {:>7}  {}\n", rank, binding.empty() ? "-" : shortened(binding),
                            kWidestBinding, pci, choice.ordinal < 0 ? "-" : std::to_string(choice.ordinal),
                            nic.empty() ? "-" : nic);
    }
    return text;
}

// "0 to 7, 9" of ascending numbers.
std::string in_runs(const std::vector<std::size_t>& numbers) {
    std::string text;
    for (std::size_t i = 0, end = 0; i < numbers.size(); i = end) {
        for (end = i + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;)
            ++end;
        text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
        if (end - i > 1)
            text += fmt::format(" to {}", numbers[end - 1]);
    }
    return text;
}

std::string_view text_of(topology::Between between) {
    constexpr std::array<std::string_view, topology::kBetween> kWords = {
        "slices of one GPU",  "NVLink",    "PCI switch",       "host bridge",    "the same cores", "the same L3",
        "the same NUMA node", "not known", "the same package", "another package"};
    return kWords[static_cast<std::size_t>(between)];
}

// Lists the GPUs of each rank, in the order of a ring, where ranks get several.
std::string rings(const Node& node) {
    if (!some_share_is_several(node))
        return {};
    std::vector<std::array<std::string, 2>> lists;  // GPUs, ordinals
    std::size_t widest = std::string_view("ordinals").size();
    for (std::size_t rank = 0; rank < node.shares.size(); ++rank) {
        const std::vector<int>& visible = node.facts.ranks[rank].visible;
        auto& [gpus, ordinals] = lists.emplace_back();
        for (const int gpu : node.shares[rank]) {
            const auto ordinal = std::find(visible.begin(), visible.end(), gpu) - visible.begin();
            gpus += fmt::format("{}{}", gpus.empty() ? "" : ",", gpu);
            ordinals += fmt::format("{}{}", ordinals.empty() ? "" : ",", ordinal);
        }
        widest = std::max({widest, gpus.size(), ordinals.size()});
    }
    std::string text = fmt::format(
        "\nAll GPUs divided among the ranks (switchyard run --gpus=near), in a ring of near neighbours\n"
        "{:>4}  {:<{}}  {:<{}}  {}\n",
        "rank", "GPUs", widest, "ordinals", widest, "farthest step, the one to the next rank included");
    for (std::size_t rank = 0; rank < lists.size(); ++rank)
        text += fmt::format("{:>4}  {:<{}}  {:<{}}  {}\n", rank, lists[rank][0].empty() ? "-" : lists[rank][0], widest,
                            lists[rank][1].empty() ? "-" : lists[rank][1], widest,
                            lists[rank][0].empty() ? "-" : text_of(farthest(node.facts, node.shares, rank)));
    return text;
}

}  // namespace

std::vector<std::string> reasons(const Node& node) {
    std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;
    for (std::size_t rank = 0; rank < node.choices.size(); ++rank) {
        const std::string& why = node.choices[rank].why;
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == why; });
        if (same != groups.end())
            same->second.push_back(rank);
        else
            groups.emplace_back(why, std::vector{rank});
    }
    std::vector<std::string> lines;
    for (const auto& [why, ranks] : groups)
        lines.push_back(fmt::format("{} {}: {}", ranks.size() == 1 ? "rank" : "ranks", in_runs(ranks), why));
    return lines;
}

std::string node_as_text(const Node& node) {
    std::string text = tree(node) + distances(node) + table(node) + "\nWhy\n";
    for (const std::string& reason : reasons(node))
        text += fmt::format("  {}\n", reason);
    return text + rings(node);
}

}  // namespace swy::cli
