// The reason why a rank got its GPU, as a sentence for users. For choice.cpp alone.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "topology/choice.hpp"

namespace swy::topology {

std::string explain(const NodeFacts& facts, const std::vector<Choice>& choices, std::size_t rank);

}  // namespace swy::topology
