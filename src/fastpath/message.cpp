#include "fastpath/message.hpp"

#include <limits>

#include "datatype/layout.hpp"

namespace swy::fastpath {

bool envelopes = false;
constinit std::atomic<int> probed_messages{0};
constinit std::atomic<bool> errors_return{false};
std::uint64_t secret_word = 0;
std::size_t limit = std::numeric_limits<std::size_t>::max();

std::shared_ptr<const datatype::Layout> layout_with_gaps(MPI_Datatype type) {
    auto layout = datatype::layout_of(type);
    return layout->predefined && layout->contiguous ? nullptr : layout;
}

}  // namespace swy::fastpath
