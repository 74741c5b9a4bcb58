#include "nccl/launch.hpp"

#include <algorithm>
#include <memory>

#include "datatype/element.hpp"
#include "datatype/layout.hpp"
#include "datatype/reduction.hpp"

namespace swy::nccl {
namespace {

// The elements that one rank reduces.
struct Part {
    std::size_t first, count;
};

class ReductionPlan {
  public:
    ReductionPlan(const Call& call, const Ends& ends, const datatype::Reduction& what, int rank, int size, Work& work)
        : id_(blocking_form(call.id)),
          what_(what),
          layout_(datatype::layout_of(call.operands.back().type)),
          sized_(ends.recv != nullptr ? *ends.recv : *ends.send),
          rank_(rank),
          size_(size),
          root_(call.root),
          send_(static_cast<std::byte*>((ends.send != nullptr ? ends.send : ends.recv)->address)),
          recv_(ends.recv != nullptr ? static_cast<std::byte*>(ends.recv->address) : nullptr),
          mine_(part(rank)),
          work_(work) {}

    Reason make() {
        const std::size_t slots = mine_.count * what_.bytes * static_cast<std::size_t>(size_);
        const std::size_t bytes = slots + (lands() ? static_cast<std::size_t>(sized_.count) * what_.bytes : 0);
        if (bytes != 0 && device::Scratch::acquire(work_.location.context, bytes, work_.scratch) != 0)
            return Reason::kNoMemory;
        landing_ = static_cast<std::byte*>(work_.scratch.data()) + slots;
        work_.kernel =
            static_cast<device::Kernel>(static_cast<int>(device::Kernel::kReduceInt8) + static_cast<int>(what_.type));
        work_.stages.resize(3);
        collect(work_.stages[0]);
        reduce(work_.stages[1]);
        hand_out(work_.stages[1]);
        put_in_place(work_.stages[2]);
        return Reason::kNone;
    }

  private:
    bool scattered() const { return id_ == CallId::kReduceScatter || id_ == CallId::kReduceScatterBlock; }

    // Elements with a gap are received into scratch memory: the contents of the gaps in the program's buffer must not
    // change.
    bool gap() const { return layout_->size != what_.bytes; }
    bool lands() const { return gap() && !scattered() && result_for(rank_) >= 0; }

    // The elements of all ranks before r, where ranks have counts of their own.
    std::size_t before(int r) const {
        std::size_t elements = 0;
        for (int earlier = 0; earlier < r; ++earlier)
            elements += static_cast<std::size_t>(sized_.counts()[earlier]);
        return elements;
    }

    // The part that rank r reduces. Where MPI does not say who gets which result, all ranks reduce equally many
    // elements.
    Part part(int r) const {
        const auto index = static_cast<std::size_t>(r);
        if (id_ == CallId::kReduceScatter)
            return {before(r), static_cast<std::size_t>(sized_.counts()[r])};
        const auto count = static_cast<std::size_t>(sized_.count);
        if (id_ == CallId::kReduceScatterBlock)
            return {count * index, count};
        const std::size_t each = (count + static_cast<std::size_t>(size_) - 1) / static_cast<std::size_t>(size_);
        const std::size_t first = std::min(count, each * index);
        return {first, std::min(count - first, each)};
    }

    std::byte* slot(int r) const {
        return static_cast<std::byte*>(work_.scratch.data()) + static_cast<std::size_t>(r) * mine_.count * what_.bytes;
    }
    std::size_t bytes(const Part& part) const { return part.count * what_.bytes; }
    std::byte* in(std::byte* buffer, const Part& part) const { return buffer + part.first * what_.bytes; }

    // Collects this rank's part of every rank's data, a slot for each.
    void collect(Stage& stage) const {
        for (int r = 0; r < size_; ++r) {
            const Part theirs = part(r);
            if (r != rank_ && theirs.count != 0)
                stage.sends.push_back({in(send_, theirs), bytes(theirs), r});
            if (r != rank_ && mine_.count != 0)
                stage.receives.push_back({slot(r), bytes(mine_), r});
        }
        if (mine_.count != 0)
            stage.copies.push_back({slot(rank_), in(send_, mine_), bytes(mine_)});
    }

    // Afterwards slot r holds the reduction of the data of ranks 0 to r.
    void reduce(Stage& stage) const {
        for (int r = 1; r < size_ && mine_.count != 0; ++r)
            stage.reductions.push_back({reinterpret_cast<std::uint64_t>(slot(r - 1)),
                                        reinterpret_cast<std::uint64_t>(slot(r)), mine_.count, what_.op});
    }

    // The slot that rank r gets; -1: none.
    int result_for(int r) const {
        switch (id_) {
            case CallId::kScan:
                return r;
            case CallId::kExscan:
                return r - 1;
            case CallId::kReduce:
                return r == root_ ? size_ - 1 : -1;
            default:
                return size_ - 1;
        }
    }

    void hand_out(Stage& stage) const {
        if (scattered())
            return;
        for (int r = 0; r < size_; ++r) {
            if (r == rank_)
                continue;
            if (result_for(r) >= 0 && mine_.count != 0)
                stage.sends.push_back({slot(result_for(r)), bytes(mine_), r});
            if (const Part theirs = part(r); result_for(rank_) >= 0 && theirs.count != 0)
                stage.receives.push_back({in(gap() ? landing_ : recv_, theirs), bytes(theirs), r});
        }
    }

    // Copies elements without their gap, which may be within an element (MPI_SHORT_INT) or at its end (MPI_DOUBLE_INT).
    void copy(Stage& stage, std::byte* to, const std::byte* from, std::size_t count) const {
        if (!gap()) {
            stage.copies.push_back({to, from, count * what_.bytes});
            return;
        }
        for (const datatype::Block& run : layout_->blocks)
            stage.copies.push_back({to + run.offset, from + run.offset, run.length, count, what_.bytes});
    }

    void put_in_place(Stage& stage) const {
        if (mine_.count != 0 && result_for(rank_) >= 0)
            copy(stage, scattered() ? recv_ : in(recv_, mine_), slot(result_for(rank_)), mine_.count);
        for (int r = 0; r < size_ && lands(); ++r)
            if (const Part theirs = part(r); r != rank_ && theirs.count != 0)
                copy(stage, in(recv_, theirs), in(landing_, theirs), theirs.count);
    }

    const CallId id_;
    const datatype::Reduction& what_;
    const std::shared_ptr<const datatype::Layout> layout_;  // of an element
    const Operand& sized_;
    const int rank_, size_, root_;
    std::byte* const send_;
    std::byte* const recv_;
    const Part mine_;
    Work& work_;
    std::byte* landing_ = nullptr;
};

}  // namespace

Reason plan_reduction(const Call& call, Reason otherwise, int rank, int size, Work& work) {
    const Ends ends = ends_of(call, rank);
    // Whether NCCL reduces these types depends on the node: not all ranks might choose the same way.
    if (otherwise == Reason::kDatatype && datatype::is_float8(datatype::element_of(call.operands.back().type).element))
        return otherwise;
    datatype::Reduction what;
    const Operand& sized = ends.recv != nullptr ? *ends.recv : *ends.send;
    if (!device::kernels_built() || !datatype::find_reduction(sized.type, call.op, what))
        return otherwise;
    for (const Operand* operand : {ends.send, ends.recv})
        if (operand != nullptr)
            if (const Reason obstacle = take_location(operand->address, work); obstacle != Reason::kNone)
                return obstacle;
    device::Stream device_stream;
    if (device::Stream::acquire(work.location.context, device_stream) != 0 || !device_stream.has_kernels())
        return otherwise;
    return ReductionPlan(call, ends, what, rank, size, work).make();
}

}  // namespace swy::nccl
