#include "settings/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "call/hash.hpp"
#include "settings/parse.hpp"
#include "settings/rows.hpp"

namespace swy::settings {

namespace {

constexpr std::size_t kCountOfSettings = std::size(kSettings);

constexpr std::array<Row, kCountOfSettings> kRows = [] {
    std::array<Row, kCountOfSettings> rows{};
    for (std::size_t i = 0; i < kCountOfSettings; ++i)
        rows[i] = kSettings[i].row;
    return rows;
}();

constexpr std::size_t kAgreed = [] {
    std::size_t count = 0;
    for (const Setting& setting : kSettings)
        count += setting.row.agreed ? 1 : 0;
    return count;
}();

// This hash changes when an agreed setting is added, removed or renamed, so ranks of different versions notice it.
constexpr std::uint64_t kLayout = [] {
    std::uint64_t hash = call::kFnvBasis;
    for (const Setting& setting : kSettings)
        if (setting.row.agreed)
            hash = call::fnv1a(setting.row.name, hash);
    return hash;
}();

// Function-local statics, so that loading the library runs nothing.
Values& in_force() {
    static Values values;
    return values;
}

bool& from_first_rank() {
    static bool from = false;
    return from;
}

// nullptr where the variable is not set or set to nothing.
const char* variable(std::string_view name) {
    const char* text = std::getenv(name.data());  // names are literals: they end in NUL
    return text != nullptr && *text != '\0' ? text : nullptr;
}

// Reads the variable under the setting's name, else under its old name.
const char* variable(const Setting& setting) {
    const char* text = variable(setting.row.name);
    for (const Renamed& renamed : kRenamed) {
        if (text == nullptr && renamed.name == setting.row.name)
            text = variable(renamed.old_name);
    }
    return text;
}

std::string_view nearest_name(std::string_view name) {
    std::array<std::string_view, kCountOfSettings> names;
    for (std::size_t i = 0; i < kCountOfSettings; ++i)
        names[i] = kSettings[i].row.name;
    return names[nearest(name, names)];
}

bool known(std::string_view name) {
    for (const Setting& setting : kSettings) {
        if (name == setting.row.name)
            return true;
    }
    return std::any_of(std::begin(kRenamed), std::end(kRenamed),
                       [=](const Renamed& renamed) { return name == renamed.old_name; });
}

std::string unknown_variables() {
    std::string problems;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::string_view name = text.substr(0, text.find('='));
        if (!name.starts_with("SWITCHYARD_") || known(name))
            continue;
        problems += std::string(name) + " is not a setting of Switchyard; the nearest one is " +
                    std::string(nearest_name(name)) + " (all of them: switchyard info)\n";
    }
    return problems;
}

// "p2p_comm" and "SWITCHYARD_P2P_COMM" both as the latter.
std::string as_variable(std::string_view name) {
    std::string variable(name);
    for (char& c : variable)
        c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return variable.starts_with("SWITCHYARD") ? variable : "SWITCHYARD_" + variable;
}

}  // namespace

std::span<const Row> table() {
    return kRows;
}

std::string_view variable_of(std::string_view name) {
    const std::string wanted = as_variable(name);
    for (const Setting& setting : kSettings) {
        if (wanted == setting.row.name)
            return setting.row.name;
    }
    return {};
}

std::string nearest_short_name(std::string_view name) {
    std::string nearest(nearest_name(as_variable(name)));
    if (nearest.starts_with("SWITCHYARD_"))
        nearest.erase(0, std::size("SWITCHYARD_") - 1);
    for (char& c : nearest)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return nearest;
}

std::string read(Values& into) {
    std::string problems;
    for (const Setting& setting : kSettings) {
        const char* text = variable(setting);
        if (text != nullptr && !setting.parse(text, into)) {
            problems += std::string(setting.row.name) + "=" + text +
                        " is not valid; allowed is: " + std::string(setting.row.type) + " (default " +
                        std::string(setting.row.default_value) + ")\n";
        }
    }
    problems += unknown_variables();
    if (!problems.empty())
        problems.pop_back();
    return problems;
}

std::string old_names() {
    std::string text;
    for (const Renamed& renamed : kRenamed) {
        if (variable(renamed.old_name) != nullptr)
            text += (text.empty() ? "" : "\n") + std::string(renamed.old_name) + " is called " +
                    std::string(renamed.name) + " now; the old name will not be understood in the next release";
    }
    return text;
}

const Values& values() {
    return in_force();
}

void install(Values values, bool from_rank_zero) {
    in_force() = std::move(values);
    from_first_rank() = from_rank_zero;
}

std::vector<Shown> show() {
    Values own;
    (void)read(own);
    std::vector<Shown> shown;
    shown.reserve(kCountOfSettings);
    for (const Setting& setting : kSettings) {
        std::string value = setting.print(in_force());
        std::string_view origin = variable(setting) != nullptr ? "environment" : "default";
        if (from_first_rank() && setting.row.agreed && value != setting.print(own))
            origin = "rank 0";
        shown.push_back({std::string(setting.row.name), std::move(value), std::string(origin)});
    }
    return shown;
}

std::vector<std::string> changed() {
    const Values usual;
    std::vector<std::string> found;
    for (const Setting& setting : kSettings)
        if (const std::string value = setting.print(in_force()); value != setting.print(usual) &&
                                                                 setting.row.name != "SWITCHYARD_REPORT" &&
                                                                 setting.row.name != "SWITCHYARD_TRACE")
            found.push_back(std::string(setting.row.name) + "=" + value);
    return found;
}

std::vector<std::byte> pack_agreed(const Values& values) {
    std::array<std::uint64_t, kAgreed + 1> packed{};
    std::size_t next = 0;
    packed[next++] = kLayout;
    for (const Setting& setting : kSettings) {
        if (setting.row.agreed)
            packed[next++] = setting.pack(values);
    }
    std::vector<std::byte> bytes(sizeof packed);
    std::memcpy(bytes.data(), packed.data(), sizeof packed);
    return bytes;
}

bool unpack_agreed(std::span<const std::byte> bytes, Values& into) {
    std::array<std::uint64_t, kAgreed + 1> packed{};
    if (bytes.size() != sizeof packed)
        return false;
    std::memcpy(packed.data(), bytes.data(), sizeof packed);
    if (packed[0] != kLayout)
        return false;
    std::size_t next = 1;
    for (const Setting& setting : kSettings) {
        if (setting.row.agreed)
            setting.unpack(packed[next++], into);
    }
    return true;
}

std::string differs(const Values& mine, const Values& rank_zero) {
    std::string text;
    for (const Setting& setting : kSettings) {
        if (!setting.row.agreed)
            continue;
        const std::string here = setting.print(mine);
        const std::string there = setting.print(rank_zero);
        if (here == there)
            continue;
        text += text.empty() ? "" : ", ";
        text += setting.row.name;
        text.append(" (").append(here).append(" here, ").append(there).append(" on rank 0)");
    }
    return text;
}

}  // namespace swy::settings
