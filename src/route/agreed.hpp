// A collective that agrees without blocking and then does what has been agreed on: it is launched on NCCL in its turn,
// or its real call is made on host memory. begun.cpp and persistent.cpp say how its ranks agree. Under the engine's
// lock, but for prepare().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "carrier/nccl/flight.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/order.hpp"
#include "p2p/lanes.hpp"
#include "route/asking.hpp"
#include "route/collective.hpp"
#include "route/in_turn.hpp"
#include "route/kept_call.hpp"
#include "route/operands.hpp"
#include "route/under_way.hpp"
#include "route/vote.hpp"

namespace swy::route {

class Agreed : public Collective {
  public:
    ~Agreed() override;

  protected:
    // Does it wait for those that the program has called before it, or come whenever it is started?
    enum class Place : std::uint8_t { kInOrder, kAnywhere };

    // `kept` may be null where it is neither prepared nor staged.
    Agreed(const Call& call, int rank, int size, std::shared_ptr<comm::Order> order, Place place,
           std::shared_ptr<const KeptCall> kept, std::size_t bytes);

    // All that may fail here alone, before others are told; it has its place then. Throws std::bad_alloc.
    Vote prepare(comm::State& comm, Presence presence);
    std::uint64_t prepared_for() const;  // the NCCL communicator's number; 0: for none

    // The ranks' ballots are being exchanged; heard() says what has come of it, once, and settles the route or not.
    void ask(const comm::State& comm, std::shared_ptr<Ballots> ballots, const comm::Order::Launch& launch);
    virtual void heard(const Verdict& verdict) = 0;
    void settle(const Route& route);
    virtual std::shared_ptr<carrier::staged::Deferred> stage(Reason reason) = 0;
    void wait_for_turn(std::unique_ptr<carrier::nccl::Flight> flight, const comm::Order::Launch& launch);

    // Where it does neither.
    virtual bool advance_alone() { return false; }

    bool advance() final;
    void failing(const std::string& why) override;
    void end(request::Outcome outcome) override;
    const comm::State* comm_state() const override { return order_->owner(); }

    const Call& kept() const { return kept_->call(); }
    std::size_t bytes() const { return bytes_; }
    bool agreeing() const { return asking_.has_value(); }
    bool first() const { return place_ == Place::kAnywhere || order_->first(this); }

    std::shared_ptr<comm::Order> order_;  // until the end
    bool reported_ = false;               // its end is not for the report

  private:
    bool answered();
    bool fly();
    bool follow();

    const Place place_;
    const std::size_t bytes_;
    std::shared_ptr<const KeptCall> kept_;
    std::optional<UnderWay> under_way_;
    std::optional<p2p::lanes::Announced> announced_;
    std::unique_ptr<carrier::nccl::Flight> flight_;
    std::shared_ptr<Ballots> ballots_;
    comm::Order::Launch launch_;
    std::optional<Asking> asking_;
    std::optional<InTurn> in_turn_;
    std::shared_ptr<carrier::staged::Deferred> deferred_;
};

}  // namespace swy::route
