#include "p2p/plain.hpp"

#include <limits>

namespace swy::p2p {

bool envelopes = false;
constinit std::atomic<int> kept{0};
std::size_t limit = std::numeric_limits<std::size_t>::max();

}  // namespace swy::p2p
