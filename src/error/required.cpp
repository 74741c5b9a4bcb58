#include "error/required.hpp"

#include <fmt/format.h>

namespace swy::error {

std::string refusal(Reason reason) {
    if (!nccl_is_required() || !mendable(reason))
        return {};
    return fmt::format("SWITCHYARD_NCCL=require, but {}. {}", explain(reason), remedy(reason));
}

}  // namespace swy::error
