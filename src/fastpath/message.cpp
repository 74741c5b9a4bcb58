#include "fastpath/message.hpp"

#include <limits>

#include "comm/state.hpp"
#include "datatype/layout.hpp"
#include "request/receive_buffers.hpp"

namespace swy::fastpath {

bool envelopes = false;
constinit std::atomic<int> probed_messages{0};
constinit std::atomic<bool> errors_return{false};
std::uint64_t secret_word = 0;
std::size_t limit = std::numeric_limits<std::size_t>::max();
std::size_t watchable = std::numeric_limits<std::size_t>::max();

// Only called where no envelope has come to host memory, and so any receive may wait in the buffer. The communicator is
// looked up now, so that an operation can tell later whether it still exists.
void watch_large(MPI_Request request, request::HostReceive&& receive) {
    comm::of(receive.comm);
    receive.buffer = receive.address;
    static_cast<void>(request::buffers::enter_to_wait(receive.buffer, nullptr));
    request::watch(request, std::move(receive));
}

std::shared_ptr<const datatype::Layout> layout_with_gaps(MPI_Datatype type) {
    auto layout = datatype::layout_of(type);
    return layout->predefined && layout->contiguous ? nullptr : layout;
}

}  // namespace swy::fastpath
