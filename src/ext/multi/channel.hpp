// The communication by which the ranks of a collective on several buffers do what remains after they have exchanged
// their facts: the communicator's private communicator where it has one, otherwise messages. Only collective.cpp uses
// this, under the engine's lock.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/exchange.hpp"
#include "comm/launch_order.hpp"
#include "comm/state.hpp"
#include "ext/multi/host_work.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "request/real_end.hpp"

namespace swy::multi {

class Channel {
  public:
    // `tags` are those that the ranks have drawn for this call.
    Channel(std::shared_ptr<comm::LaunchOrder> order, comm::State& state, std::vector<int> tags)
        : order_(std::move(order)), exchange_(state, std::move(tags)) {}

    comm::Exchange& exchange() { return exchange_; }

    int begin(HostWork& work) { return order_ ? work.call(order_->private_comm(), &request_) : work.call(exchange_); }
    bool done(int& code) {  // calls MPI_Test; `code` is MPI's
        if (!order_)
            return exchange_.done(code);
        code = MPI_SUCCESS;
        if (request_ == MPI_REQUEST_NULL)
            return true;
        MPI_Status ignored;
        return progress::may_poll() && request::has_ended(request_, Owner(), ignored, code);
    }
    void keep(const std::shared_ptr<void>& memory) {  // until MPI no longer uses it
        progress::keep_until(std::exchange(request_, MPI_REQUEST_NULL), memory);
        exchange_.keep(memory);
    }

  private:
    const std::shared_ptr<comm::LaunchOrder> order_;
    comm::Exchange exchange_;
    MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace swy::multi
