#include "settings/tuning_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "call_ids.hpp"
#include "settings/files.hpp"

namespace swy::settings {

namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

// Thrown for an entry that is wrong; the message gets its line, which is found by the entry's name.
struct Wrong {
    std::string key, what;
};

int line_at(const std::string& text, std::size_t offset) {
    return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

int line_of(const std::string& text, const std::string& key) {
    const std::size_t at = text.find("\"" + key + "\"");
    return at == std::string::npos ? 1 : line_at(text, at);
}

template <typename Parse>
void parse_member(const Json& all, const char* key, const char* what, Parse parse) {
    const auto entry = all.find(key);
    if (entry == all.end() || !parse(*entry))
        throw Wrong{key, fmt::format("\"{}\" must be {}{}", key, what, entry == all.end() ? ", and is missing" : "")};
}

bool parse_text(const Json& value, std::string& into) {
    if (!value.is_string() || value.get<std::string>().empty())
        return false;
    into = value.get<std::string>();
    return true;
}

bool parse_count(const Json& value, int& into) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 || value.get<std::uint64_t>() > 1u << 30)
        return false;
    into = value.get<int>();
    return true;
}

void parse_calls(const Json& thresholds, TuningFile& into) {
    for (const auto& [name, value] : thresholds.items()) {
        if (!can_be_tuned(name))
            throw Wrong{name, fmt::format("\"{}\" is no collective that has a threshold", name)};
        if (!value.is_null() && !value.is_number_unsigned())
            throw Wrong{name, fmt::format("\"{}\" must be a number of bytes, or null for never", name)};
        into.calls.push_back({name, value.is_null() ? kNever : value.get<std::size_t>()});
    }
}

void take_all(const Json& all, TuningFile& into) {
    if (!all.is_object())
        throw Wrong{"", "must be one JSON object"};
    parse_member(all, "switchyard_tuning", "1, the format's number",
                 [](const Json& value) { return value.is_number_integer() && value == kFormat; });
    parse_member(all, "gpu", "the name of a GPU", [&](const Json& value) { return parse_text(value, into.gpu); });
    parse_member(all, "nccl", "a version like \"2.28.9\"",
                 [&](const Json& value) { return parse_text(value, into.nccl) && nccl_code(into.nccl) != 0; });
    parse_member(all, "ranks", "a number of ranks", [&](const Json& value) { return parse_count(value, into.ranks); });
    parse_member(all, "nodes", "a number of nodes", [&](const Json& value) { return parse_count(value, into.nodes); });
    parse_member(all, "virtual", "true or false", [&](const Json& value) {
        into.is_virtual = value.is_boolean() && value.get<bool>();
        return value.is_boolean();
    });
    parse_member(all, "thresholds", "an object: bytes, by the names of calls",
                 [](const Json& value) { return value.is_object(); });
    parse_calls(all["thresholds"], into);
}

}  // namespace

bool can_be_tuned(const std::string& name) {
    return std::any_of(kCallFacts.begin(), kCallFacts.end(), [&](const CallFacts& call) {
        return call.treatment == Treatment::kRouted && call.blocking && call.name == name;
    });
}

int nccl_code(const std::string& version) {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned patch = 0;
    int length = 0;
    if (std::sscanf(version.c_str(), "%3u.%2u.%2u%n", &major, &minor, &patch, &length) != 3 ||
        static_cast<std::size_t>(length) != version.size())
        return 0;
    return static_cast<int>(major * 10000 + minor * 100 + patch);
}

std::string parse_tuning(const std::string& path, const std::string& text, TuningFile& into) {
    into = {};
    try {
        take_all(Json::parse(text), into);
    } catch (const Json::parse_error& error) {
        const std::size_t offset = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
        return fmt::format("{}:{}: is not JSON from here on; switchyard tune writes such files", path,
                           line_at(text, offset));
    } catch (const Wrong& wrong) {
        return fmt::format("{}:{}: {} (switchyard-tune(1) describes the file)", path, line_of(text, wrong.key),
                           wrong.what);
    }
    return {};
}

std::string read_tuning(const std::string& path, TuningFile& into) {
    std::string text;
    if (std::string problem = read_file(path, text); !problem.empty())
        return problem;
    return text.empty() ? fmt::format("{}: is empty", path) : parse_tuning(path, text, into);
}

}  // namespace swy::settings
