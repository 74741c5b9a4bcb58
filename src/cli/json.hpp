// How the command writes JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace swy::cli {

using Json = nlohmann::ordered_json;  // keeps members in the order in which they are added

inline Json or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace swy::cli
