// SWITCHYARD_NCCL=require: calls that would be staged for a reason that can be mended fail in place of that. Whoever
// has found a route together with the other ranks asks.
#pragma once

#include <string>

#include "call/reason.hpp"
#include "settings/settings.hpp"

namespace swy::error {

inline bool nccl_is_required() {
    return settings::values().nccl == settings::Nccl::kRequired;
}

// Returns the text of the error where a call on device memory must not be staged for this reason; "" where it may be.
std::string refusal(Reason reason);

}  // namespace swy::error
