#include "nccl/launch.hpp"

#include <algorithm>
#include <memory>
#include <vector>

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

// The same between groups.
class ReductionBetweenGroups {
  public:
    ReductionBetweenGroups(const Call& call, const TwoGroups& groups, const datatype::Reduction& what, Work& work)
        : id_(blocking_form(call.id)), groups_(groups), what_(what), root_(call.root), work_(work) {
        const Operand& sized = call.operands.back();
        total_ = static_cast<std::size_t>(std::max<MPI_Count>(sized.count, 0));
        if (id_ == CallId::kReduceScatterBlock)
            total_ *= static_cast<std::size_t>(groups.own);
        if (scatters_by_counts())
            divide(sized.counts());
        send_ = static_cast<std::byte*>(call.operands.front().address);
        recv_ = static_cast<std::byte*>(sized.address);
    }

    bool sends() const { return id_ != CallId::kReduce || root_ >= 0; }
    bool receives() const {
        return (id_ != CallId::kReduce || root_ == MPI_ROOT) &&
               !(scatters_by_counts() && result_of(groups_.me).count == 0);
    }

    Reason make() {
        work_.stages.resize(scatters_by_counts() ? 3 : 2);
        if (sends() && !collect_and_reduce())
            return Reason::kNoMemory;
        if (receives() || scatters_by_counts())
            receive();
        if (scatters_by_counts())
            share_out();
        return Reason::kNone;
    }

  private:
    bool scatters_by_counts() const { return id_ == CallId::kReduceScatter; }

    void divide(Numbers<MPI_Count> counts) {
        total_ = 0;
        for (int r = 0; r < groups_.own; ++r) {
            first_.push_back(total_);
            total_ += static_cast<std::size_t>(counts[r]);
        }
        first_.push_back(total_);
    }
    // What the own group's rank r gets of the result, by the counts.
    Part result_of(int r) const {
        const auto index = static_cast<std::size_t>(r);
        return {first_[index], first_[index + 1] - first_[index]};
    }

    // Has `of` ranks reduce equally many elements.
    Part part(int r, int of) const {
        const auto ranks = static_cast<std::size_t>(of);
        const std::size_t each = (total_ + ranks - 1) / ranks;
        const std::size_t first = std::min(total_, each * static_cast<std::size_t>(r));
        return {first, std::min(total_ - first, each)};
    }
    // The elements of the result that rank r gets from the other group, of a group of `of`.
    Part wanted(int r, int of) const {
        if (scatters_by_counts())
            return part(r, of);
        if (id_ != CallId::kReduceScatterBlock)
            return {0, total_};
        const std::size_t each = total_ / static_cast<std::size_t>(of);
        return {each * static_cast<std::size_t>(r), each};
    }
    static Part common(const Part& a, const Part& b) {
        const std::size_t first = std::max(a.first, b.first);
        const std::size_t end = std::min(a.first + a.count, b.first + b.count);
        return {first, end > first ? end - first : 0};
    }
    std::size_t bytes(std::size_t elements) const { return elements * what_.bytes; }

    // Collects this rank's part of its group's data, a slot for each, and reduces into the last.
    bool collect_and_reduce() {
        const Part mine = part(groups_.me, groups_.own);
        const std::size_t slot = bytes(mine.count);
        const std::size_t slots_only = slot * static_cast<std::size_t>(groups_.own);
        const std::size_t all = slots_only + (scatters_by_counts() ? slot : 0);
        if (all != 0 && device::Scratch::acquire(work_.location.context, all, work_.scratch) != 0)
            return false;
        auto* const slots = static_cast<std::byte*>(work_.scratch.data());
        landing_ = slots + slots_only;
        for (int r = 0; r < groups_.own; ++r) {
            std::byte* const theirs = slots + slot * static_cast<std::size_t>(r);
            const Part part_of_r = part(r, groups_.own);
            if (r == groups_.me && slot != 0)
                work_.stages[0].copies.push_back({theirs, send_ + bytes(mine.first), slot});
            if (r != groups_.me && slot != 0)
                work_.stages[0].receives.push_back({theirs, slot, groups_.first_own + r});
            if (r != groups_.me && part_of_r.count != 0)
                work_.stages[0].sends.push_back(
                    {send_ + bytes(part_of_r.first), bytes(part_of_r.count), groups_.first_own + r});
            if (r != 0 && slot != 0)
                work_.stages[1].reductions.push_back({reinterpret_cast<std::uint64_t>(theirs - slot),
                                                      reinterpret_cast<std::uint64_t>(theirs), mine.count, what_.op});
        }
        hand_out(mine, slots + slot * static_cast<std::size_t>(groups_.own - 1));
        return true;
    }

    void hand_out(const Part& mine, std::byte* result) {
        for (int r = 0; r < groups_.others; ++r) {
            if (id_ == CallId::kReduce && r != root_)
                continue;
            if (const Part piece = common(mine, wanted(r, groups_.others)); piece.count != 0)
                work_.stages[1].sends.push_back(
                    {result + bytes(piece.first - mine.first), bytes(piece.count), groups_.first_others + r});
        }
    }

    void receive() {
        const Part mine = wanted(groups_.me, groups_.own);
        for (int r = 0; r < groups_.others; ++r)
            if (const Part piece = common(part(r, groups_.others), mine); piece.count != 0)
                work_.stages[1].receives.push_back(
                    {(scatters_by_counts() ? landing_ : recv_) + bytes(piece.first - mine.first), bytes(piece.count),
                     groups_.first_others + r});
    }

    // Hands out this rank's equal part of the result within its group.
    void share_out() {
        Stage& stage = work_.stages[2];
        const Part here = part(groups_.me, groups_.own), mine = result_of(groups_.me);
        for (int r = 0; r < groups_.own; ++r) {
            const Part theirs = result_of(r);
            if (const Part piece = common(here, theirs); piece.count != 0 && r == groups_.me)
                stage.copies.push_back({recv_ + bytes(piece.first - mine.first),
                                        landing_ + bytes(piece.first - here.first), bytes(piece.count)});
            else if (piece.count != 0)
                stage.sends.push_back(
                    {landing_ + bytes(piece.first - here.first), bytes(piece.count), groups_.first_own + r});
            if (const Part piece = common(part(r, groups_.own), mine); piece.count != 0 && r != groups_.me)
                stage.receives.push_back(
                    {recv_ + bytes(piece.first - mine.first), bytes(piece.count), groups_.first_own + r});
        }
    }

    const CallId id_;
    const TwoGroups& groups_;
    const datatype::Reduction& what_;
    const int root_;
    Work& work_;
    std::size_t total_ = 0;           // elements of the result, of all ranks that share it
    std::vector<std::size_t> first_;  // of what each rank of the own group gets, by its counts, and the end
    std::byte* send_ = nullptr;
    std::byte* recv_ = nullptr;
    std::byte* landing_ = nullptr;  // this rank's equal part of the result
};

// Determines the device of the operands, and its kernel that reduces this.
Reason take_kernel(const Call& call, bool sends, bool receives, const datatype::Reduction& what, Work& work) {
    if (sends)
        if (const Reason obstacle = take_location(call.operands.front().address, work); obstacle != Reason::kNone)
            return obstacle;
    if (receives)
        if (const Reason obstacle = take_location(call.operands.back().address, work); obstacle != Reason::kNone)
            return obstacle;
    device::Stream device_stream;
    if (device::Stream::acquire(work.location.context, device_stream) != 0 || !device_stream.has_kernels())
        return Reason::kOperator;
    work.kernel =
        static_cast<device::Kernel>(static_cast<int>(device::Kernel::kReduceInt8) + static_cast<int>(what.type));
    return Reason::kNone;
}

}  // namespace

Reason plan_reduction_between_groups(const Call& call, const TwoGroups& groups, Work& work) {
    const CallId id = blocking_form(call.id);
    if (id == CallId::kReduce && call.root == MPI_PROC_NULL) {
        work.stages.emplace_back();  // without anything in it
        return Reason::kNone;
    }
    const MPI_Datatype type = call.operands.back().type;
    datatype::Reduction what;
    if (const Numbers<MPI_Count> counts = call.operands.back().counts(); id == CallId::kReduceScatter)
        for (int r = 0; r < groups.own; ++r)
            if (!counts || counts[r] < 0)
                return Reason::kInvalid;  // an error of the program's, which MPI reports
    if (!device::kernels_built() || datatype::is_float8(datatype::element_of(type).element) ||
        !datatype::find_reduction(type, call.op, what))
        return Reason::kOperator;
    if (datatype::layout_of(type)->size != what.bytes)  // elements with gaps
        return Reason::kDerivedType;
    ReductionBetweenGroups plan(call, groups, what, work);
    const Reason obstacle = take_kernel(call, plan.sends(), plan.receives(), what, work);
    return obstacle != Reason::kNone ? obstacle : plan.make();
}

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
