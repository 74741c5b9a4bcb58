// By what the ranks of a collective on several buffers do what is left when they know of each other: the communicator's
// private one and its order where there is one, messages where no call that blocks has made it. For collective.cpp
// alone, under the engine's lock.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/exchange.hpp"
#include "comm/order.hpp"
#include "comm/state.hpp"
#include "multi/host_work.hpp"

namespace swy::multi {

class Channel {
  public:
    // `tags` are the ranks' for this call.
    Channel(std::shared_ptr<comm::Order> order, comm::State& state, std::vector<int> tags)
        : order_(std::move(order)), exchange_(state, std::move(tags)) {}

    comm::Exchange& exchange() { return exchange_; }

    // As Order's; `number` is the call's.
    bool arrived(std::uint64_t number) { return order_ ? order_->arrived({number}) : exchange_.arrived(); }
    void pass_on(std::uint64_t number) { order_ ? order_->pass_on({number}) : exchange_.pass_on(); }
    // It will not be launched; `first`: it has been asked for.
    void give_up(std::uint64_t number, bool first) {
        if (order_)
            order_->give_up({number});
        else if (first)
            exchange_.give_up();
    }

    int begin(HostWork& work) { return order_ ? work.call(order_->shadow(), &request_) : work.call(exchange_); }
    bool done(int& code);  // asks MPI; the code is MPI's

  private:
    const std::shared_ptr<comm::Order> order_;
    comm::Exchange exchange_;
    MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace swy::multi
