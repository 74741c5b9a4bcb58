#include "multi/channel.hpp"

#include "real.hpp"
#include "request/engine.hpp"

namespace swy::multi {

bool Channel::done(int& code) {
    if (!order_)
        return exchange_.done(code);
    code = MPI_SUCCESS;
    if (request_ == MPI_REQUEST_NULL)
        return true;
    if (!request::may_ask())
        return false;
    int flag = 0;
    code = real::Test(&request_, &flag, MPI_STATUS_IGNORE);
    return code != MPI_SUCCESS || flag != 0;
}

}  // namespace swy::multi
