#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cli/node.hpp"

namespace swy::cli {

namespace {

// Boxes in boxes, in lstopo's colours. All lengths are pixels.
constexpr double kChar = 7.3, kRow = 24, kGap = 8, kHeading = 22;
constexpr std::size_t kMostRanks = 64;  // listed below the picture
constexpr std::string_view kMachine = "#ffffff", kPackage = "#dedede", kNuma = "#efdfde", kGpu = "#dbdfbe",
                           kNic = "#d2e7a4", kUnknown = "#f5f5f5", kEdge = "#404040";
// Ranks take these in turn; each is dark enough for white text.
constexpr std::array<std::string_view, 8> kRanks = {"#1b6ca8", "#b3541e", "#2e7d32", "#8e24aa",
                                                    "#00796b", "#c2185b", "#5d4037", "#455a64"};

std::string escaped(std::string_view text) {
    std::string safe;
    for (const char c : text) {
        if (c == '&')
            safe += "&amp;";
        else if (c == '<')
            safe += "&lt;";
        else if (c == '>')
            safe += "&gt;";
        else if (c == '"')
            safe += "&quot;";
        else
            safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return safe;
}

struct Box {
    double x = 0, y = 0, width = 0, height = 0;
    std::string drawing;
};

double width_of(std::string_view text) {
    return kChar * static_cast<double>(text.size()) + 2 * kGap;
}

std::string rectangle(double x, double y, double width, double height, std::string_view fill, double round = 2) {
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{}\" fill=\"{}\" stroke=\"{}\"/>\n", x,
        y, width, height, round, fill, kEdge);
}

std::string text_element(double x, double y, std::string_view text, std::string_view style = "") {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y, style.empty() ? "" : " ", style,
                       escaped(text));
}

// Cuts text that is too long for its line; the text format has all of it.
std::string cut(std::string_view text, std::size_t most) {
    return text.size() <= most ? std::string(text) : std::string(text.substr(0, most - 3)) + "...";
}

class Picture {
  public:
    explicit Picture(const Node& node) : node_(node) {}

    Box part(const Part& what, double x, double y, int depth) const {
        Box box{x, y, width_of(cut(what.title, kLongest)), kHeading + kGap, ""};
        std::string inside;
        const auto add = [&](const Box& inner) {
            inside += inner.drawing;
            box.width = std::max(box.width, inner.width + 2 * kGap);
            box.height = std::max(box.height, inner.y + inner.height + kGap - y);
        };
        const Columns columns = columns_of(what);
        for (const int gpu : what.gpus)
            add(device(gpu_title(node_, gpu), kGpu, gpu, columns, x + kGap, y + box.height));
        for (const int nic : what.nics)
            add(device(nic_title(node_, nic), kNic, -1, columns, x + kGap, y + box.height));
        // Packages stand side by side, what is in them one below the other.
        double right = x + kGap;
        const double top = y + box.height;
        for (const Part& inner : what.parts) {
            const Box drawn = part(inner, depth == 0 ? right : x + kGap, depth == 0 ? top : y + box.height, depth + 1);
            right = drawn.x + drawn.width + kGap;
            add(drawn);
            box.width = std::max(box.width, right - x);
        }
        const bool unknown = what.parts.empty() && depth == 1 && !node_.machine.packages.empty();
        const std::string_view fill = depth == 0 ? kMachine : depth > 1 ? kNuma : unknown ? kUnknown : kPackage;
        box.drawing = rectangle(x, y, box.width, box.height, fill) +
                      text_element(x + kGap, y + 16, cut(what.title, kLongest), "font-weight=\"bold\"") + inside;
        return box;
    }

    // Lists each rank's choice, one a line, and the reasons.
    Box legend(double x, double y) const {
        Box box{x, y, 0, 0, ""};
        const std::size_t listed = std::min(node_.choices.size(), kMostRanks);
        std::vector<std::string> lines;
        for (std::size_t rank = 0; rank < listed; ++rank)
            lines.push_back(choice(rank));
        if (listed < node_.choices.size())
            lines.push_back(
                fmt::format("and {} more ranks (switchyard topo --format=text)", node_.choices.size() - listed));
        for (std::string& reason : reasons(node_))
            lines.push_back(std::move(reason));
        for (const std::string& line : lines) {
            box.height += kRow;
            box.drawing += text_element(x, y + box.height - kGap, line);
            box.width = std::max(box.width, width_of(line));
        }
        return box;
    }

  private:
    static constexpr std::size_t kLongest = 72;

    std::string choice(std::size_t rank) const {
        const auto& chosen = node_.choices[rank];
        if (chosen.gpu < 0)
            return fmt::format("rank {}: no GPU", rank);
        const std::string ring = node_.shares[rank].size() < 2
                                     ? ""
                                     : fmt::format("; its share, in a ring: {}", fmt::join(node_.shares[rank], ","));
        return fmt::format("rank {}: {} (ordinal {}){}", rank,
                           node_.machine.gpus[static_cast<std::size_t>(chosen.gpu)].pci, chosen.ordinal, ring);
    }

    // The boxes of a part's devices are equally wide, and their ranks stand one below the other.
    struct Columns {
        double titles = 0, all = 0;
    };
    Columns columns_of(const Part& what) const {
        Columns columns;
        double ranks = 0;
        for (const int gpu : what.gpus) {
            columns.titles = std::max(columns.titles, width_of(cut(gpu_title(node_, gpu), kLongest)));
            if (const std::string on = ranks_on(node_, gpu); !on.empty())
                ranks = std::max(ranks, width_of(on) + kGap);
        }
        columns.all = columns.titles + ranks;
        for (const int nic : what.nics)
            columns.all = std::max(columns.all, width_of(cut(nic_title(node_, nic), kLongest)));
        return columns;
    }

    // A device's box, and in it its ranks.
    Box device(const std::string& title, std::string_view fill, int gpu, const Columns& columns, double x,
               double y) const {
        const std::string shown = cut(title, kLongest);
        Box box{x, y, columns.all, kRow, ""};
        std::string chips;
        const std::string ranks = gpu < 0 ? "" : ranks_on(node_, gpu);
        if (!ranks.empty())
            chips = rectangle(x + columns.titles, y + 3, width_of(ranks), kRow - 6,
                              kRanks[static_cast<std::size_t>(gpu) % kRanks.size()], 8) +
                    text_element(x + columns.titles + kGap, y + 16, ranks, "fill=\"#ffffff\"");
        box.drawing = rectangle(x, y, box.width, kRow, fill) + text_element(x + kGap, y + 16, shown) + chips;
        return box;
    }

    const Node& node_;
};

}  // namespace

std::string node_as_svg(const Node& node) {
    const Picture picture(node);
    const Box machine = picture.part(drawn(node.machine), kGap, kGap, 0);
    const Box legend = picture.legend(2 * kGap, machine.y + machine.height + kGap);
    const double width = std::max(machine.width, legend.width + kGap) + 2 * kGap;
    const double height = legend.y + legend.height + kGap;
    return fmt::format(
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"DejaVu Sans Mono, monospace\" font-size=\"12\">\n"
               "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
               width, height, escaped("GPUs of " + node.machine.from)) +
           machine.drawing + legend.drawing + "</svg>\n";
}

}  // namespace swy::cli
