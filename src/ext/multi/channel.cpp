#include "ext/multi/channel.hpp"

#include <utility>

#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "request/real_end.hpp"

namespace swy::multi {

bool Channel::done(int& code) {
    if (!order_)
        return exchange_.done(code);
    code = MPI_SUCCESS;
    if (request_ == MPI_REQUEST_NULL)
        return true;
    MPI_Status ignored;
    return progress::may_poll() && request::has_ended(request_, Owner(), ignored, code);
}

void Channel::keep(const std::shared_ptr<void>& memory) {
    progress::keep_until(std::exchange(request_, MPI_REQUEST_NULL), memory);
    exchange_.keep(memory);
}

}  // namespace swy::multi
