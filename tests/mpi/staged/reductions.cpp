// Reductions, by MPI's operators and by a program's own, which is associative but not commutative: the product of 2 x 2
// matrices.
#include <numeric>

#include "../../collective_forms.hpp"
#include "round.hpp"

namespace staged_test {
namespace {

// A matrix's four numbers lie apart, in no order, with a gap at the end.
constexpr int kPlaces[] = {3, 0, 5, 1};
constexpr int kExtent = 8;

void multiply(void* left, void* right_and_result, int* count, MPI_Datatype*) {
    auto* a = static_cast<unsigned*>(left);
    auto* b = static_cast<unsigned*>(right_and_result);
    for (int i = 0; i < *count; ++i, a += kExtent, b += kExtent) {
        const unsigned l[] = {a[kPlaces[0]], a[kPlaces[1]], a[kPlaces[2]], a[kPlaces[3]]};
        const unsigned r[] = {b[kPlaces[0]], b[kPlaces[1]], b[kPlaces[2]], b[kPlaces[3]]};
        b[kPlaces[0]] = l[0] * r[0] + l[1] * r[2];
        b[kPlaces[1]] = l[0] * r[1] + l[1] * r[3];
        b[kPlaces[2]] = l[2] * r[0] + l[3] * r[2];
        b[kPlaces[3]] = l[2] * r[1] + l[3] * r[3];
    }
}

View matrix() {
    MPI_Datatype places, type;
    MPI_Type_create_indexed_block(4, 1, const_cast<int*>(kPlaces), MPI_UNSIGNED, &places);
    MPI_Type_create_resized(places, 0, kExtent * sizeof(unsigned), &type);
    MPI_Type_free(&places);
    MPI_Type_commit(&type);
    return View(type, true);
}

// Draws counts whose sum is `count`, some of them 0.
void divide(int count, Dice dice, std::vector<int>& counts) {
    int rest = count;
    for (int& c : counts) {
        c = dice.one_in(4) ? 0 : dice.below(rest + 1);
        rest -= c;
    }
    counts[static_cast<std::size_t>(dice.below(static_cast<int>(counts.size())))] += rest;
}

enum Which { kReduce, kAllreduce, kReduceScatter, kReduceScatterBlock, kScan, kExscan, kReduceLocal, kReductions };
constexpr const char* kNames[] = {"Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block",
                                  "Scan",   "Exscan",    "Reduce_local"};

}  // namespace

void one_reduction(Round& round) {
    auto which = static_cast<Which>(round.common.below(round.inter ? kScan : kReductions));  // no scans between groups
    const bool own_op = !round.inter && round.common.one_in(3);
    const MPI_Datatype number = round.common.one_in(2) ? MPI_UNSIGNED : MPI_UNSIGNED_LONG;
    // Open MPI 4.1.4 compares MPI_UNSIGNED_LONG, of all unsigned types, as if it were signed, and NCCL does not.
    MPI_Op op = round.common.one_in(2) ? MPI_BXOR : number == MPI_UNSIGNED_LONG ? MPI_SUM : MPI_MAX;
    if (own_op)
        MPI_Op_create(multiply, 0, &op);
    const View view = own_op ? matrix() : View(number, false);
    const bool in_place = !round.inter && round.common.one_in(3) && which != kReduceLocal;

    // MPI_Reduce_scatter: both groups' sums must be the same.
    std::vector<int> counts(static_cast<std::size_t>(round.size));
    const int each = round.common.below(20);
    int count = round.draw_count();
    if (which == kReduceScatter && round.inter) {
        divide(count, Dice(static_cast<unsigned>(2 * round.common.below(1 << 30) + (round.first_group ? 1 : 0))),
               counts);
    } else if (which == kReduceScatter) {
        for (int& c : counts)
            c = round.common.below(12);
        count = std::accumulate(counts.begin(), counts.end(), 0);
    } else if (which == kReduceScatterBlock) {
        count = each * round.size * (round.inter ? round.others : 1);
    }
    const int block = which == kReduceScatter        ? counts[static_cast<std::size_t>(round.rank)]
                      : which == kReduceScatterBlock ? count / round.size
                                                     : count;
    const int drawn = round.common.below(1000);
    const bool first_has_root = round.common.one_in(2);
    const bool has_root = round.inter && first_has_root == round.first_group;
    const int root = drawn % (has_root ? round.size : round.others);
    const int root_argument = !has_root ? root : round.rank == root ? MPI_ROOT : MPI_PROC_NULL;
    const bool receives = which != kReduce || (round.rank == root && has_root == round.inter);
    const bool sends = which != kReduce || !has_root;

    Buffer send(round.own, {{&view, 0, sends ? count : 0}});
    Buffer recv(round.own, {{&view, 0, !receives ? 0 : in_place ? count : block}});
    round.call = std::string(kNames[which]) + (own_op ? " of matrices" : "") + (in_place ? " in place" : "") +
                 (round.inter ? " between groups" : "");
    round.twice([&](Side side) {
        const void* from = in_place && receives ? MPI_IN_PLACE : send.at(side);
        void* to = recv.at(side);
        switch (which) {
            case kReduce:
                return forms::Reduce(from, to, count, view.type, op, root_argument, round.comm);
            case kAllreduce:
                return forms::Allreduce(from, to, count, view.type, op, round.comm);
            case kReduceScatter:
                return forms::Reduce_scatter(from, to, counts.data(), view.type, op, round.comm);
            case kReduceScatterBlock:
                return forms::Reduce_scatter_block(from, to, block, view.type, op, round.comm);
            case kScan:
                return forms::Scan(from, to, count, view.type, op, round.comm);
            case kExscan:
                return forms::Exscan(from, to, count, view.type, op, round.comm);
            default:
                return MPI_Reduce_local(from, to, count, view.type, op);
        }
    });
    round.expect_untouched(send, "send");
    if (in_place &&
        (which == kReduceScatter || which == kReduceScatterBlock)) {  // the rest of the input may be overwritten
        if (!recv.same_start(static_cast<std::size_t>(block * view.extent - view.low)))
            round.fail("receive buffer: " + recv.difference());
    } else {
        round.expect_same(recv, "receive");
    }
    if (own_op)
        MPI_Op_free(&op);
}

}  // namespace staged_test
