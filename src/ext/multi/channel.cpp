#include "ext/multi/channel.hpp"

#include "progress/engine.hpp"
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

}  // namespace swy::multi
