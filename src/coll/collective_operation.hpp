// A collective whose ranks agree without blocking, and which then does what they have agreed on: it is launched on NCCL
// in launch order, or its real call is made on host memory. nonblocking.cpp and persistent.cpp say how its ranks agree.
// All functions are called under the engine's lock, except prepare().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "coll/collective.hpp"
#include "coll/concurrent_collectives.hpp"
#include "coll/operands.hpp"
#include "coll/ordered_launch.hpp"
#include "coll/pending_agreement.hpp"
#include "coll/saved_call.hpp"
#include "coll/vote.hpp"
#include "comm/launch_order.hpp"
#include "nccl/operation.hpp"
#include "p2p/pair_comms.hpp"
#include "staging/staged.hpp"

namespace swy::coll {

class CollectiveOperation : public Collective {
  public:
    ~CollectiveOperation() override;

  protected:
    // kInOrder: the operation waits for those that the program has called before it. kAnywhere: it may be launched
    // whenever it is started.
    enum class Place : std::uint8_t { kInOrder, kAnywhere };

    // `kept` may be null where the operation is neither prepared nor staged.
    CollectiveOperation(const Call& call, int rank, int size, std::shared_ptr<comm::LaunchOrder> order, Place place,
                        std::shared_ptr<const SavedCall> kept, std::size_t bytes);

    // Does everything that may fail on this rank alone, before the other ranks are told; afterwards the operation has
    // its place in the launch order. Throws std::bad_alloc.
    Vote prepare(comm::State& comm, Presence presence);
    std::uint64_t prepared_for() const;  // id of the NCCL communicator; 0: none

    // Called once the exchange of the vote records has been started. decided() is called once with its decision, and
    // calls take_route() with the route unless it finds a mismatch.
    void ask(comm::State& comm, std::shared_ptr<VoteExchange> records, const comm::LaunchOrder::Launch& launch);
    virtual void decided(const Decision& decision) = 0;
    void take_route(const Route& route);
    virtual std::shared_ptr<staging::Deferred> stage(Reason reason) = 0;
    void launch_in_order(std::unique_ptr<nccl::Operation> operation, const comm::LaunchOrder::Launch& launch);

    // Steps an operation that is neither agreeing nor launched nor staged.
    virtual bool advance_alone() { return false; }

    bool advance() final;
    std::string waits_for() const override;
    void failing(const std::string& why) override;
    void end(progress::Outcome outcome) override;
    const comm::State* comm_state() const override { return order_->owner(); }

    // This rank's contribution to the real call, which is made on `comm`.
    comm::Contribution contribution(MPI_Comm comm) const;

    const Call& kept() const { return kept_->call(); }
    std::size_t bytes() const { return bytes_; }
    bool agreeing() const { return agreement_.has_value(); }
    bool first() const { return place_ == Place::kAnywhere || order_->first(this); }

    std::shared_ptr<comm::LaunchOrder> order_;  // null after end()
    bool reported_ = false;                     // then end() does not report the call

  private:
    bool answered();
    bool step_launch();
    bool step_staged();

    const Place place_;
    const std::size_t bytes_;
    std::shared_ptr<const SavedCall> kept_;
    std::optional<ConcurrentCollectives> under_way_;
    std::optional<p2p::pair_comms::Announced> announced_;
    std::unique_ptr<nccl::Operation> operation_;
    std::shared_ptr<VoteExchange> records_;
    comm::LaunchOrder::Launch launch_;
    device::Location location_;  // of this rank's part, where it has no host memory in the call
    std::optional<PendingAgreement> agreement_;
    std::optional<OrderedLaunch> ordered_launch_;
    std::shared_ptr<staging::Deferred> deferred_;
};

}  // namespace swy::coll
