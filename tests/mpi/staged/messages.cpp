// Messages, packing, and operands that lie in several places.
#include <numeric>

#include "../pml.hpp"
#include "round.hpp"

namespace staged_test {
namespace {

enum How { kSend, kSsend, kBsend, kSendrecv, kReplace, kMatched, kHows };
constexpr const char* kNames[] = {"Send and Recv", "Ssend and Recv",   "Bsend and Recv",
                                  "Sendrecv",      "Sendrecv_replace", "Send and Mrecv"};

struct Ring {
    int left, right;
};

// From the left and to the right, or nobody at the ends.
Ring ring(Round& round) {
    const bool open = round.common.one_in(4);
    Ring ends{(round.rank + round.size - 1) % round.size, (round.rank + 1) % round.size};
    if (open && round.rank == 0)
        ends.left = MPI_PROC_NULL;
    if (open && round.rank == round.size - 1)
        ends.right = MPI_PROC_NULL;
    return ends;
}

int buffered(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    int bytes = 0;
    MPI_Pack_size(count, type, comm, &bytes);
    std::vector<char> room(static_cast<std::size_t>(bytes + MPI_BSEND_OVERHEAD));
    MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
    const int rc = MPI_Bsend(buffer, count, type, to, tag, comm);
    void* back;
    int size;
    MPI_Buffer_detach(&back, &size);  // waits for the message to be gone
    return rc;
}

int send_by(How how, const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    if (how == kSsend)
        return MPI_Ssend(buffer, count, type, to, tag, comm);
    if (how == kBsend)
        return buffered(buffer, count, type, to, tag, comm);
    return MPI_Send(buffer, count, type, to, tag, comm);
}

int receive_by(How how, void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
               MPI_Status* status) {
    if (how != kMatched)
        return MPI_Recv(buffer, count, type, from, tag, comm, status);
    MPI_Message message;
    MPI_Mprobe(from, tag, comm, &message, MPI_STATUS_IGNORE);
    return MPI_Mrecv(buffer, count, type, &message, status);
}

}  // namespace

void one_message(Round& round) {
    // Left out is what Open MPI does not do right over libfabric (docs/debugging.md).
    const bool libfabric = mpi_test::over("cm");
    const auto how = static_cast<How>(round.common.below(libfabric ? kMatched : kHows));
    const Ring ends = ring(round);
    const int ints = 1 + round.common.below(6), count = round.draw_count(), tag = round.common.below(100);
    // Room for more than comes, and now and then for less: an error, and what has come is there. (What a process sends
    // to itself Open MPI 4.1.4 takes without an error or with one, depending on the sender's type.)
    const bool too_little = round.size > 1 && count > 0 && how != kReplace && !libfabric && round.common.one_in(5);
    const int room = too_little ? count - 1 : round.common.one_in(3) ? count + round.common.below(9) : count;
    const View sent = make_view(round.own, ints, kSent), received = make_view(round.own, ints, room);
    Buffer send(round.own, {{&sent, 0, count}}), recv(round.own, {{&received, 0, room}});
    MPI_Status status[2];
    round.call = std::string(kNames[how]) + ", room for " + std::to_string(room) + " of " + std::to_string(count);
    round.twice([&](Side side) {
        if (how == kSendrecv)
            return MPI_Sendrecv(send.at(side), count, sent.type, ends.right, tag, recv.at(side), room, received.type,
                                ends.left, tag, round.comm, &status[side]);
        if (how == kReplace)
            return MPI_Sendrecv_replace(send.at(side), count, sent.type, ends.right, tag, ends.left, tag, round.comm,
                                        &status[side]);
        int rc = MPI_SUCCESS;
        // The ring must not wait for itself: even ranks send first, odd ones receive first, and so does the last of an
        // odd number.
        const bool first = round.rank % 2 == 0 && !(round.rank == round.size - 1 && round.size > 1);
        if (round.size == 1)
            return MPI_Sendrecv(send.at(side), count, sent.type, ends.right, tag, recv.at(side), room, received.type,
                                ends.left, tag, round.comm, &status[side]);
        if (first)
            rc = send_by(how, send.at(side), count, sent.type, ends.right, tag, round.comm);
        const int received_rc =
            receive_by(how, recv.at(side), room, received.type, ends.left, tag, round.comm, &status[side]);
        if (!first)
            rc = send_by(how, send.at(side), count, sent.type, ends.right, tag, round.comm);
        return received_rc != MPI_SUCCESS ? received_rc : rc;
    });
    if (how != kReplace)
        round.expect_untouched(send, "send");
    else
        round.expect_same(send, "the");
    if (!round.cut)
        round.expect_same(recv, "receive");
    else if (!recv.untouched_around(received, room))
        round.fail("a message that is too long was written beside the receive's data: " + recv.difference());
    round.expect_same_status(status, received.type);
}

void one_packing(Round& round) {
    const int ints = 1 + round.own.below(6), count = round.own.below(40);
    const bool external = round.own.one_in(2);
    const View view = make_view(round.own, ints, count), bytes(MPI_BYTE, false);
    const MPI_Aint room = MPI_Aint{count} * ints * 4 + 24;
    Buffer data(round.own, {{&view, 0, count}}), packed(round.own, {{&bytes, 0, room}}),
        back(round.own, {{&view, 0, count}});
    round.call = external ? "Pack_external" : "Pack";
    round.twice([&](Side side) {
        MPI_Aint at = 8;
        int position = 8;
        return external ? MPI_Pack_external("external32", data.at(side), count, view.type, packed.at(side), room, &at)
                        : MPI_Pack(data.at(side), count, view.type, packed.at(side), static_cast<int>(room), &position,
                                   round.comm);
    });
    round.expect_untouched(data, "data");
    round.expect_same(packed, "packed");
    round.call = external ? "Unpack_external" : "Unpack";
    round.twice([&](Side side) {
        MPI_Aint at = 8;
        int position = 8;
        return external ? MPI_Unpack_external("external32", packed.at(side), room, &at, back.at(side), count, view.type)
                        : MPI_Unpack(packed.at(side), static_cast<int>(room), &position, back.at(side), count,
                                     view.type, round.comm);
    });
    round.expect_same(back, "unpacked");
}

void one_scattered(Round& round) {
    const int ints = 4 + round.common.below(200), which = round.common.below(4), root = round.common.below(round.size);
    Scattered one(round.own, ints), other(round.own, ints);
    const View flat = make_view(round.own, ints, round.size);
    Buffer all(round.own, {{&flat, 0, round.rank == root ? round.size : 0}});
    const Ring ends = ring(round);
    MPI_Status status[2];
    constexpr const char* kCalls[] = {"Bcast", "Gatherv", "Sendrecv", "Alltoallw"};
    round.call = std::string(kCalls[which]) + " of blocks at absolute addresses";
    const std::vector<int> counts(static_cast<std::size_t>(round.size), 0), ones(counts.size(), 1);
    std::vector<int> places = counts;
    std::iota(places.begin(), places.end(), 0);
    round.twice([&](Side side) {
        switch (which) {
            case 0:
                return MPI_Bcast(MPI_BOTTOM, 1, one.type(side), root, round.comm);
            case 1:
                return MPI_Gatherv(MPI_BOTTOM, 1, one.type(side), all.at(side), ones.data(), places.data(), flat.type,
                                   root, round.comm);
            case 2:
                return MPI_Sendrecv(MPI_BOTTOM, 1, one.type(side), ends.right, 3, MPI_BOTTOM, 1, other.type(side),
                                    ends.left, 3, round.comm, &status[side]);
            default: {
                std::vector<int> out = counts, in = counts, at = counts;
                out[static_cast<std::size_t>((round.rank + 1) % round.size)] = 1;
                in[static_cast<std::size_t>((round.rank + round.size - 1) % round.size)] = 1;
                const std::vector<MPI_Datatype> from(counts.size(), one.type(side)),
                    to(counts.size(), other.type(side));
                return MPI_Alltoallw(MPI_BOTTOM, out.data(), at.data(), from.data(), MPI_BOTTOM, in.data(), at.data(),
                                     to.data(), round.comm);
            }
        }
    });
    if (!one.same() || !other.same())
        round.fail("blocks differ");
    round.expect_same(all, "gathered");
}

}  // namespace staged_test
