// Collective data movement.
#include <numeric>

#include "../../collective_forms.hpp"
#include "round.hpp"

namespace staged_test {
namespace {

// As the root argument is passed: only the group without the root names a rank.
struct Root {
    int argument = 0;
    bool is_root = false, sends = true;  // sends: passes what every rank passes
};

Root draw_root(Round& round) {
    Root root;
    const bool first = round.common.one_in(2);
    if (!round.inter) {
        root.argument = round.common.below(round.size);
        root.is_root = root.argument == round.rank;
        return root;
    }
    const int drawn = round.common.below(1000);
    const bool my_group_has_it = first == round.first_group;
    const int group = my_group_has_it ? round.size : round.others;
    root.argument = drawn % group;
    root.is_root = my_group_has_it && root.argument == round.rank;
    root.sends = !my_group_has_it;
    if (my_group_has_it)
        root.argument = root.is_root ? MPI_ROOT : MPI_PROC_NULL;
    return root;
}

void bcast(Round& round) {
    const Root root = draw_root(round);
    const int ints = 1 + round.common.below(6), count = round.draw_count();
    const View view = make_view(round.own, ints, kSent);
    Buffer buffer(round.own, {{&view, 0, count}});
    round.call = "Bcast";
    round.twice([&](Side side) { return forms::Bcast(buffer.at(side), count, view.type, root.argument, round.comm); });
    round.expect_same(buffer, "the");
}

void gather(Round& round, bool scatter, bool vector) {
    const Root root = draw_root(round);
    const int ints = 1 + round.common.below(6), even = round.draw_count();
    const bool in_place = !round.inter && round.common.one_in(3);
    // Enough for either group; on an intercommunicator the ranks of the group without the root take part.
    std::vector<int> counts;
    for (int r = 0; r < 16; ++r)
        counts.push_back(vector ? round.common.below(even + 2) : even);
    const int mine = counts[static_cast<std::size_t>(round.rank)];
    counts.resize(static_cast<std::size_t>(round.others));
    const Blocks blocks(round.own, counts);
    // Between groups, Open MPI's first rank receives for all of its group, as elements of its own type: interleaved
    // ones must not meet there either.
    const int received = round.inter ? mine * round.size : mine;
    const View one = make_view(round.own, ints, scatter ? received : kSent);
    const View all = make_view(round.own, ints, scatter ? kSent : vector ? blocks.most() : even * round.others);
    Buffer single(round.own, root.sends ? std::vector<Segment>{{&one, 0, mine}} : std::vector<Segment>{});
    Buffer many(round.own, !root.is_root ? std::vector<Segment>{}
                           : vector      ? blocks.segments(all)
                                         : std::vector<Segment>{{&all, 0, MPI_Count{even} * round.others}});
    round.call = std::string(scatter ? "Scatter" : "Gather") + (vector ? "v" : "") + (in_place ? " in place" : "") +
                 (round.inter ? " between groups" : "");
    round.twice([&](Side side) {
        void* here = in_place && root.is_root ? MPI_IN_PLACE : single.at(side);
        void* there = many.at(side);
        // Elsewhere than at the root MPI ignores these.
        const bool ignored = !round.inter && !root.is_root;
        const int *c = ignored ? nullptr : blocks.counts.data(), *d = ignored ? nullptr : blocks.displs.data();
        const MPI_Datatype type = ignored ? MPI_DATATYPE_NULL : all.type;
        const int each = ignored ? -7 : even;
        if (scatter)
            return vector ? forms::Scatterv(there, c, d, type, here, mine, one.type, root.argument, round.comm)
                          : forms::Scatter(there, each, type, here, mine, one.type, root.argument, round.comm);
        return vector ? forms::Gatherv(here, mine, one.type, there, c, d, type, root.argument, round.comm)
                      : forms::Gather(here, mine, one.type, there, each, type, root.argument, round.comm);
    });
    round.expect_same(single, "own");
    round.expect_same(many, "root's");
    round.expect_untouched(scatter ? many : single, "send");
}

void allgather(Round& round, bool vector) {
    const int ints = 1 + round.common.below(6), even = round.draw_count();
    const bool in_place = !round.inter && round.common.one_in(3);
    std::vector<int> counts[2];  // of the groups
    for (auto& group : counts)
        for (int r = 0; r < 16; ++r)
            group.push_back(vector ? round.common.below(even + 2) : even);
    const int mine = counts[round.first_group ? 0 : 1][static_cast<std::size_t>(round.rank)];
    std::vector<int> theirs = counts[round.first_group == round.inter ? 1 : 0];
    theirs.resize(static_cast<std::size_t>(round.others));
    const Blocks blocks(round.own, theirs);
    const View one = make_view(round.own, ints, kSent);
    const View all = make_view(round.own, ints, in_place ? kSent : vector ? blocks.most() : even * round.others);
    Buffer send(round.own, {{&one, 0, mine}});
    Buffer recv(round.own,
                vector ? blocks.segments(all) : std::vector<Segment>{{&all, 0, MPI_Count{even} * round.others}});
    round.call = std::string("Allgather") + (vector ? "v" : "") + (in_place ? " in place" : "") +
                 (round.inter ? " between groups" : "");
    round.twice([&](Side side) {
        const void* here = in_place ? MPI_IN_PLACE : send.at(side);
        return vector ? forms::Allgatherv(here, mine, one.type, recv.at(side), blocks.counts.data(),
                                          blocks.displs.data(), all.type, round.comm)
                      : forms::Allgather(here, mine, one.type, recv.at(side), even, all.type, round.comm);
    });
    round.expect_untouched(send, "send");
    round.expect_same(recv, "receive");
}

void alltoall(Round& round, bool vector) {
    const int ints = 1 + round.common.below(6), even = round.common.one_in(6) ? 0 : 1 + round.common.below(40);
    const bool in_place = !round.inter && round.common.one_in(3);
    // Open MPI 4.1.4 loses count of a communicator's non-blocking collectives where one in place has nothing for a
    // rank, and later ones hang.
    const int least = in_place && forms::current != forms::Form::kBlocking ? 1 : 0;
    std::vector<int> out, in;
    int matrix[16][16][2];
    for (auto& row : matrix)
        for (auto& cell : row) {
            cell[0] = vector ? least + round.common.below(even + 2) : even;
            cell[1] = round.inter ? (vector ? round.common.below(even + 2) : even) : cell[0];
        }
    for (int r = 0; r < round.others; ++r) {
        const int low = in_place ? std::min(round.rank, r) : round.rank, high = in_place ? std::max(round.rank, r) : r;
        if (!round.inter) {
            out.push_back(matrix[low][high][0]);
            in.push_back(in_place ? out.back() : matrix[r][round.rank][0]);
        } else {  // [rank of the first group][rank of the second][direction]
            const auto& cell = round.first_group ? matrix[round.rank][r] : matrix[r][round.rank];
            out.push_back(cell[round.first_group ? 0 : 1]);
            in.push_back(cell[round.first_group ? 1 : 0]);
        }
    }
    const Blocks to(round.own, out), from(round.own, in);
    const View sent = make_view(round.own, ints, kSent);
    const View received = make_view(round.own, ints, in_place ? kSent : vector ? from.most() : even * round.others);
    const MPI_Count all = MPI_Count{even} * round.others;
    Buffer send(round.own, vector ? to.segments(sent) : std::vector<Segment>{{&sent, 0, all}});
    Buffer recv(round.own, vector ? from.segments(received) : std::vector<Segment>{{&received, 0, all}});
    round.call = std::string("Alltoall") + (vector ? "v" : "") + (in_place ? " in place" : "") +
                 (round.inter ? " between groups" : "");
    round.twice([&](Side side) {
        const void* here = in_place ? MPI_IN_PLACE : send.at(side);
        return vector ? forms::Alltoallv(here, to.counts.data(), to.displs.data(), sent.type, recv.at(side),
                                         from.counts.data(), from.displs.data(), received.type, round.comm)
                      : forms::Alltoall(here, even, sent.type, recv.at(side), even, received.type, round.comm);
    });
    round.expect_untouched(send, "send");
    round.expect_same(recv, "receive");
}

// A type for every peer.
struct Typed {
    std::vector<int> counts, offsets;
    std::vector<View> views;
    std::vector<MPI_Datatype> types;
    std::vector<Segment> segments() const {
        std::vector<Segment> all;
        for (std::size_t r = 0; r < counts.size(); ++r)
            all.push_back({&views[r], offsets[r], counts[r]});
        return all;
    }
    void add(Dice& dice, int ints, int count, bool sent) {
        views.push_back(make_view(dice, ints, sent ? kSent : count));
        const View& view = views.back();
        const MPI_Aint length = count > 0 ? view.high - view.low + (count - 1) * view.extent : 0;
        end_ += 4 * dice.below(5);
        offsets.push_back(static_cast<int>(end_ - view.low));
        end_ += length;
        counts.push_back(count);
        types.push_back(view.type);
    }

  private:
    MPI_Aint end_ = 0;
};

void alltoallw(Round& round) {
    int matrix[16][16][2][2];  // [from][to][first group to second or back][ints, count]
    for (auto& row : matrix)
        for (auto& cell : row)
            for (auto& way : cell) {
                way[0] = 1 + round.common.below(5);
                way[1] = round.common.below(12);
            }
    Typed to, from;
    for (int r = 0; r < round.others; ++r) {
        const int way = round.inter && !round.first_group ? 1 : 0, back = round.inter ? 1 - way : 0;
        to.add(round.own, matrix[round.rank][r][way][0], matrix[round.rank][r][way][1], true);
        from.add(round.own, matrix[r][round.rank][back][0], matrix[r][round.rank][back][1], false);
    }
    Buffer send(round.own, to.segments()), recv(round.own, from.segments());
    round.call = std::string("Alltoallw") + (round.inter ? " between groups" : "");
    round.twice([&](Side side) {
        return forms::Alltoallw(send.at(side), to.counts.data(), to.offsets.data(), to.types.data(), recv.at(side),
                                from.counts.data(), from.offsets.data(), from.types.data(), round.comm);
    });
    round.expect_untouched(send, "send");
    round.expect_same(recv, "receive");
}

}  // namespace

Blocks::Blocks(Dice& dice, std::vector<int> of) : counts(std::move(of)), displs(counts.size()) {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), 0);
    if (dice.one_in(2))
        for (std::size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[static_cast<std::size_t>(dice.below(static_cast<int>(i)))]);
    int at = dice.one_in(2) ? 0 : dice.below(3);
    const bool gaps = dice.one_in(2);
    for (std::size_t r : order) {
        displs[r] = at;
        at += counts[r] + (gaps ? dice.below(3) : 0);
    }
}

std::vector<Segment> Blocks::segments(const View& view) const {
    std::vector<Segment> all;
    for (std::size_t r = 0; r < counts.size(); ++r)
        all.push_back({&view, displs[r] * view.extent, counts[r]});
    return all;
}

int Blocks::most() const {
    int end = 0;
    for (std::size_t r = 0; r < counts.size(); ++r)
        end = std::max(end, displs[r] + counts[r]);
    return end;
}

void one_rooted(Round& round) {
    const int which = round.common.below(5);
    if (which == 0)
        bcast(round);
    else
        gather(round, which >= 3, which % 2 == 0);
}

void one_all(Round& round) {
    const int which = round.common.below(5);
    // Open MPI 4.1.4 takes the displacements of one process for multiples of the extent. Groups of an
    // intercommunicator may be of different size, and must draw alike.
    if (which == 4 && (round.inter || round.size > 1))
        alltoallw(round);
    else if (which < 2)
        allgather(round, which == 1);
    else
        alltoall(round, which == 3);
}

}  // namespace staged_test
