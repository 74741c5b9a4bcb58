// An operation on NCCL from the agreement to its end: it waits for its turn, is launched, and flies. For those of the
// router's operations that do not block, under the engine's lock.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "carrier/nccl/flight.hpp"
#include "comm/order.hpp"
#include "request/wait.hpp"

namespace swy::route {

class InTurn {
  public:
    // `flight` is ready. Waits from now on, as long as SWITCHYARD_TIMEOUT says.
    InTurn(std::unique_ptr<carrier::nccl::Flight> flight, std::shared_ptr<comm::Order> order,
           const comm::Order::Launch& launch);
    ~InTurn();  // one that is not done is abandoned: the other ranks cannot do without this one
    InTurn(const InTurn&) = delete;
    InTurn& operator=(const InTurn&) = delete;

    // Never blocks. `may_launch`: nothing but the order and other communicators' operations is in the way. True when
    // something moved.
    bool step(bool may_launch);

    // Others may be launched after it.
    bool settled() const { return launched_ && flight_->settled(); }
    bool done() const { return done_; }
    const std::string& failure() const { return failure_; }  // once done; "" is success, else it has been aborted

  private:
    bool launch();
    void end(std::string failure);
    void abandon();
    void let_others();

    const std::unique_ptr<carrier::nccl::Flight> flight_;
    const std::shared_ptr<comm::Order> order_;
    const comm::Order::Launch launch_;
    const request::Deadline deadline_;
    comm::Turn turn_;
    bool launched_ = false, done_ = false;
    std::string failure_;
};

}  // namespace swy::route
