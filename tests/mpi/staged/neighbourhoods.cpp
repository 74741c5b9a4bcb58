// Neighbourhood collectives on Cartesian grids (open and closed), graphs and distributed graphs.
#include "../../collective_forms.hpp"
#include "round.hpp"

namespace staged_test {
namespace {

enum class Topology { kCartesian, kGraph, kDistributed };

// Who sends to this rank and to whom it sends, in the order of the blocks; how often a pair occurs does not matter for
// the counts drawn.
struct Neighbours {
    std::vector<int> sources, targets;
};

Neighbours cartesian(Round& round, MPI_Comm* made) {
    const int closed = round.common.below(2);
    MPI_Cart_create(round.comm, 1, &round.size, &closed, 0, made);
    int left, right;
    MPI_Cart_shift(*made, 0, 1, &left, &right);
    return {{left, right}, {left, right}};
}

// A ring with chords: everybody is a neighbour of the next and of the one before.
Neighbours graph(Round& round, MPI_Comm* made) {
    std::vector<int> index, edges;
    for (int r = 0; r < round.size; ++r) {
        edges.push_back((r + 1) % round.size);
        edges.push_back((r + round.size - 1) % round.size);
        index.push_back(static_cast<int>(edges.size()));
    }
    MPI_Graph_create(round.comm, round.size, index.data(), edges.data(), 0, made);
    const std::vector<int> mine{(round.rank + 1) % round.size, (round.rank + round.size - 1) % round.size};
    return {mine, mine};
}

// Rank r sends to r + 1 and r + 2, and the first also to itself: in and out differ.
Neighbours distributed(Round& round, MPI_Comm* made) {
    Neighbours neighbours;
    for (int step : {1, 2}) {
        neighbours.targets.push_back((round.rank + step) % round.size);
        neighbours.sources.push_back((round.rank + round.size * 2 - step) % round.size);
    }
    if (round.rank == 0) {
        neighbours.targets.push_back(0);
        neighbours.sources.push_back(0);
    }
    MPI_Dist_graph_create_adjacent(round.comm, static_cast<int>(neighbours.sources.size()), neighbours.sources.data(),
                                   MPI_UNWEIGHTED, static_cast<int>(neighbours.targets.size()),
                                   neighbours.targets.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, made);
    return neighbours;
}

// How much `from` sends to `to`: known to both, the same for all messages between them.
int amount(int from, int to, int salt, bool vector) {
    return vector && from >= 0 && to >= 0 ? (from * 7 + to * 3 + salt) % 9 : salt % 9;
}

}  // namespace

void one_neighbourhood(Round& round) {
    MPI_Comm comm;
    const int kind = round.common.below(3);
    const Neighbours neighbours = kind == 0   ? cartesian(round, &comm)
                                  : kind == 1 ? graph(round, &comm)
                                              : distributed(round, &comm);
    const bool gathers = round.common.one_in(2), vector = round.common.one_in(2),
               typed = !gathers && vector && round.common.one_in(2);
    const int ints = 1 + round.common.below(6), salt = round.common.below(100);
    std::vector<int> out, in;
    for (int target : neighbours.targets)
        out.push_back(amount(round.rank, gathers ? 0 : target, salt, vector));
    for (int source : neighbours.sources)
        in.push_back(gathers ? amount(source, source >= 0 ? 0 : source, salt, vector)
                             : amount(source, source >= 0 ? round.rank : source, salt, vector));
    const int one = gathers ? amount(round.rank, 0, salt, vector) : 0;
    const Blocks to(round.own, out), from(round.own, in);
    const int even = salt % 9;
    const View sent = make_view(round.own, ints, kSent);
    const View received = make_view(round.own, ints, vector ? from.most() : even * static_cast<int>(in.size()));
    Buffer send(round.own, gathers  ? std::vector<Segment>{{&sent, 0, one}}
                           : vector ? to.segments(sent)
                                    : std::vector<Segment>{{&sent, 0, MPI_Count{even} * static_cast<int>(out.size())}});
    Buffer recv(round.own, vector
                               ? from.segments(received)
                               : std::vector<Segment>{{&received, 0, MPI_Count{even} * static_cast<int>(in.size())}});
    std::vector<MPI_Aint> out_at, in_at;
    for (int displacement : to.displs)
        out_at.push_back(displacement * sent.extent);
    for (int displacement : from.displs)
        in_at.push_back(displacement * received.extent);
    const std::vector<MPI_Datatype> out_types(out.size(), sent.type), in_types(in.size(), received.type);
    constexpr const char* kTopologies[] = {"grid", "graph", "distributed graph"};
    round.call = std::string("Neighbor_") + (gathers ? "allgather" : "alltoall") +
                 (typed    ? "w"
                  : vector ? "v"
                           : "") +
                 " on a " + kTopologies[kind];
    round.twice([&](Side side) {
        const void* s = send.at(side);
        void* r = recv.at(side);
        if (gathers)
            return vector ? forms::Neighbor_allgatherv(s, one, sent.type, r, from.counts.data(), from.displs.data(),
                                                       received.type, comm)
                          : forms::Neighbor_allgather(s, one, sent.type, r, even, received.type, comm);
        if (typed)
            return forms::Neighbor_alltoallw(s, to.counts.data(), out_at.data(), out_types.data(), r,
                                             from.counts.data(), in_at.data(), in_types.data(), comm);
        return vector ? forms::Neighbor_alltoallv(s, to.counts.data(), to.displs.data(), sent.type, r,
                                                  from.counts.data(), from.displs.data(), received.type, comm)
                      : forms::Neighbor_alltoall(s, even, sent.type, r, even, received.type, comm);
    });
    round.expect_untouched(send, "send");
    round.expect_same(recv, "receive");
    MPI_Comm_free(&comm);
}

}  // namespace staged_test
