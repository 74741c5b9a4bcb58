#include "p2p/plain.hpp"

#include <limits>

#include "datatype/layout.hpp"
#include "real.hpp"

namespace swy::p2p {

bool envelopes = false;
constinit std::atomic<int> kept{0};
constinit std::atomic<bool> errors_return{false};
std::uint64_t secret_word = 0;
std::size_t limit = std::numeric_limits<std::size_t>::max();

bool is_truncation(int code) {
    int mpi_class = MPI_SUCCESS;
    return real::Error_class(code, &mpi_class) == MPI_SUCCESS && mpi_class == MPI_ERR_TRUNCATE;
}

std::shared_ptr<const datatype::Layout> layout_with_gaps(MPI_Datatype type) {
    auto layout = datatype::layout_of(type);
    return layout->predefined && layout->contiguous ? nullptr : layout;
}

}  // namespace swy::p2p
