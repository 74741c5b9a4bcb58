// Partitioned messages as one message for each of the sender's partitions, or for several small ones: what both sides
// have. MPI matches the k-th MPI_Psend_init of a rank with the k-th MPI_Precv_init for it of the same communicator and
// tag (MPI 4.0 section 4.2.1: there are no wildcards), so the sender announces its messages when it makes its request,
// and the receiver posts receives for them in each of its starts.
#pragma once

#include "p2p/partitioned_side.hpp"

#if OMPI_MAJOR_VERSION >= 5

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "call/comm_name.hpp"
#include "comm/launch_order.hpp"
#include "comm/state.hpp"
#include "comm/where.hpp"
#include "datatype/kept_type.hpp"
#include "datatype/layout.hpp"
#include "error/error.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "progress/operation.hpp"
#include "real.hpp"

namespace swy::p2p::partitioned {

// A side of such a message.
class Partitions : public Side {
  public:
    Partitions(CallId call, const Arguments& arguments)
        : call_(call),
          arguments_(arguments),
          type_(arguments.partition.type),
          order_(comm::of(arguments.comm)->order),
          rank_(comm::of(arguments.comm)->rank) {
        arguments_.partition.type = type_.get();
        layout_ = datatype::layout_of(type_.get());
        comm::State* const state = comm::of(private_comm());  // messages find it under the lock
        real::Comm_set_name(private_comm(), call::comm_name(arguments.comm).c_str());  // for what is said of messages
        bytes_ = static_cast<std::size_t>(arguments.partition.count) * layout_->size;
        const progress::Hold hold;
        state->number = -order_->number();  // which no other communicator has
    }

    ~Partitions() override {
        if (progress::held_here())  // where freeing a communicator would take the lock again
            progress::keep_for_ever(std::move(order_));
    }

    CallId call() const { return call_; }
    const Arguments& arguments() const { return arguments_; }
    MPI_Comm comm() const { return arguments_.comm; }

    // Advances `next` to the first message that is not complete; under the lock. Returns false where one has failed:
    // `failure` is its outcome then.
    bool look(std::size_t& next, progress::Outcome& failure) const {
        while (next < messages_.size() && messages_[next] != nullptr && messages_[next]->done()) {
            failure = messages_[next]->outcome();
            if (failure.mpi_class != MPI_SUCCESS)
                return false;
            ++next;
        }
        return true;
    }
    std::size_t messages() const { return messages_.size(); }
    std::size_t all_bytes() const { return static_cast<std::size_t>(arguments_.partitions) * bytes_; }

  protected:
    bool valid(int partition) const { return partition >= 0 && partition < arguments_.partitions; }
    int invalid(const char* call, int partition) const {
        return error::raise(Owner(comm()), MPI_ERR_ARG,
                            fmt::format("{}: the message of {} has {} partitions, {} is none of them", call,
                                        comm::where(call_, comm()), arguments_.partitions, partition));
    }

    MPI_Comm private_comm() const { return order_->private_comm(); }
    // A call on the private communicator with this operand alone.
    Call call_of(const Operand& operand, CallId id) const {
        Call call{.id = id, .owner = Owner(private_comm()), .operands = {&operand, 1}};
        call.root = 0;
        return call;
    }

    const CallId call_;
    Arguments arguments_;
    const datatype::KeptType type_;
    // It outlives the communicator where the program frees that first.
    std::shared_ptr<comm::LaunchOrder> order_;
    const int rank_;
    std::shared_ptr<const datatype::Layout> layout_;
    std::size_t bytes_ = 0;                                       // of a partition
    std::vector<std::shared_ptr<progress::Operation>> messages_;  // of this start, under the lock
};

// Of arguments for which goes_by_messages().
std::shared_ptr<Side> sending_side(CallId call, const Arguments& arguments);
std::shared_ptr<Side> receiving_side(CallId call, const Arguments& arguments);

}  // namespace swy::p2p::partitioned

#endif
