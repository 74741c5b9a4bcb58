#include "p2p/plain.hpp"

#include <limits>

namespace swy::p2p {

bool envelopes = false;
constinit std::atomic<int> kept{0};
std::size_t limit = std::numeric_limits<std::size_t>::max();

// Nothing sends envelopes yet: what has an envelope's length is the program's.
int received_on_host(const Call&, int code, MPI_Status&) {
    return code;
}

}  // namespace swy::p2p
