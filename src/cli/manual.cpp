// `switchyard settings`: the tables of settings and reasons as text for the manual pages, written while building.
#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "call/reason.hpp"
#include "cli/commands.hpp"
#include "settings/settings.hpp"

namespace swy::cli {

namespace {

// Text for mdoc(7): a backslash is an escape, a line that starts with a dot or an apostrophe a request.
std::string roff(std::string_view text) {
    std::string escaped;
    for (char c : text) {
        if (c == '\\')
            escaped += "\\e";
        else if (c == '-')
            escaped += "\\-";
        else
            escaped += c;
    }
    return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

// Puts each sentence on a line of its own, as mandoc asks for; the table has no abbreviations that end in a dot.
std::string sentences(std::string text) {
    for (std::size_t at = text.find(". "); at != std::string::npos; at = text.find(". ", at + 1))
        text[at + 1] = '\n';
    return text;
}

std::string as_roff() {
    std::string text = ".Bl -tag -width Ds\n";
    for (const settings::Row& row : settings::table()) {
        text += fmt::format(".It Ev {} Pq {}; default {}\n{}\n", roff(row.name), roff(row.type),
                            roff(row.default_value), sentences(roff(row.meaning)));
        if (row.agreed)
            text += "Rank 0's value holds on all ranks.\n";
    }
    return text + ".El\n";
}

std::string reasons_as_roff() {
    std::string text = ".Bl -tag -width intercommunicator -compact\n";
    for (int i = 0; i < kReasons; ++i)
        text +=
            fmt::format(".It Cm {}\n{}{}\n", roff(name(static_cast<Reason>(i))), roff(explain(static_cast<Reason>(i))),
                        mendable(static_cast<Reason>(i)) ? "; an error where NCCL is required" : "");
    return text + ".El\n";
}

std::string as_markdown() {
    std::string text = "| variable | value | default | meaning |\n| --- | --- | --- | --- |\n";
    for (const settings::Row& row : settings::table())
        text += fmt::format("| `{}` | {} | `{}` | {} |\n", row.name, row.type, row.default_value, row.meaning);
    return text;
}

}  // namespace

int settings(std::span<const std::string> arguments) {
    if (arguments.size() == 1 && arguments[0] == "--roff") {
        std::fputs(as_roff().c_str(), stdout);
        return kDone;
    }
    if (arguments.size() == 1 && arguments[0] == "--roff-reasons") {
        std::fputs(reasons_as_roff().c_str(), stdout);
        return kDone;
    }
    if (arguments.size() == 1 && arguments[0] == "--markdown") {
        std::fputs(as_markdown().c_str(), stdout);
        return kDone;
    }
    std::fputs(
        "switchyard settings: --roff, --roff-reasons or --markdown (for people: switchyard info, switchyard(7))\n",
        stderr);
    return kUsage;
}

}  // namespace swy::cli
