// Point-to-point calls, each in one shape, with arguments of which one may be wrong. errors.cpp and mpi/handlers.cpp.
#pragma once

#include <mpi.h>

#include <climits>
#include <cstdint>

namespace erroneous {

struct Arguments {
    void* buffer;
    int count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
};

// What begins a request ends it here, should it be given one.
inline int end(int code, MPI_Request& request) {
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    return code;
}

template <auto kBegin>
int begun(const Arguments& a) {
    MPI_Request request = MPI_REQUEST_NULL;
    return end(kBegin(a.buffer, a.count, a.type, a.peer, a.tag, a.comm, &request), request);
}

template <auto kSend>
int sent(const Arguments& a) {
    return kSend(a.buffer, a.count, a.type, a.peer, a.tag, a.comm);
}

// Receives a message of one's own that MPI_Mprobe has found; on MPI_COMM_SELF where the communicator has none.
template <typename Receive>
int of_matched(const Arguments& a, Receive receive) {
    int rank = 0, inter = 0;
    MPI_Comm_test_inter(a.comm, &inter);
    const MPI_Comm comm = inter != 0 ? MPI_COMM_SELF : a.comm;
    char letter = 'x';
    MPI_Comm_rank(comm, &rank);
    MPI_Request sending = MPI_REQUEST_NULL;
    MPI_Isend(&letter, 1, MPI_CHAR, rank, 77, comm, &sending);
    MPI_Message found = MPI_MESSAGE_NULL;
    MPI_Mprobe(rank, 77, comm, &found, MPI_STATUS_IGNORE);
    const int code = receive(&found);
    if (found != MPI_MESSAGE_NULL)
        MPI_Mrecv(&letter, 1, MPI_CHAR, &found, MPI_STATUS_IGNORE);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    return code;
}

struct Shape {
    const char* name;
    int (*make)(const Arguments&);
    bool has_buffer = true, has_peer = true;
    bool needs_address = true;  // Open MPI 4.1 and 5.0 let some pass without
};

inline constexpr Shape kShapes[] = {
    {"Send", sent<MPI_Send>},
    {"Ssend", sent<MPI_Ssend>},
    {"Rsend", sent<MPI_Rsend>},
    {"Bsend", sent<MPI_Bsend>},
    {"Recv",
     [](const Arguments& a) { return MPI_Recv(a.buffer, a.count, a.type, a.peer, a.tag, a.comm, MPI_STATUS_IGNORE); }},
    {"Mrecv",
     [](const Arguments& a) {
         return of_matched(
             a, [&](MPI_Message* message) { return MPI_Mrecv(a.buffer, a.count, a.type, message, MPI_STATUS_IGNORE); });
     },
     true, false},
    {"Sendrecv, of what it sends",
     [](const Arguments& a) {
         return MPI_Sendrecv(a.buffer, a.count, a.type, a.peer, a.tag, a.buffer, 1, MPI_DOUBLE, MPI_PROC_NULL, 0,
                             a.comm, MPI_STATUS_IGNORE);
     }},
    {"Sendrecv, of what it receives",
     [](const Arguments& a) {
         return MPI_Sendrecv(a.buffer, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, a.buffer, a.count, a.type, a.peer, a.tag,
                             a.comm, MPI_STATUS_IGNORE);
     }},
    {"Sendrecv_replace, of what it sends",
     [](const Arguments& a) {
         return MPI_Sendrecv_replace(a.buffer, a.count, a.type, a.peer, a.tag, MPI_PROC_NULL, 0, a.comm,
                                     MPI_STATUS_IGNORE);
     }},
    {"Sendrecv_replace, of what it receives",
     [](const Arguments& a) {
         return MPI_Sendrecv_replace(a.buffer, a.count, a.type, MPI_PROC_NULL, 0, a.peer, a.tag, a.comm,
                                     MPI_STATUS_IGNORE);
     }},
    {"Isend", begun<MPI_Isend>},
    {"Issend", begun<MPI_Issend>},
    {"Irsend", begun<MPI_Irsend>},
    {"Ibsend", begun<MPI_Ibsend>},
    {"Irecv", begun<MPI_Irecv>},
    {"Imrecv",
     [](const Arguments& a) {
         return of_matched(a, [&](MPI_Message* message) {
             MPI_Request request = MPI_REQUEST_NULL;
             return end(MPI_Imrecv(a.buffer, a.count, a.type, message, &request), request);
         });
     },
     true, false},
#if OMPI_MAJOR_VERSION >= 5
    {"Isendrecv, of what it sends",
     [](const Arguments& a) {
         MPI_Request request = MPI_REQUEST_NULL;
         return end(MPI_Isendrecv(a.buffer, a.count, a.type, a.peer, a.tag, a.buffer, 1, MPI_DOUBLE, MPI_PROC_NULL, 0,
                                  a.comm, &request),
                    request);
     }},
    {"Isendrecv, of what it receives",
     [](const Arguments& a) {
         MPI_Request request = MPI_REQUEST_NULL;
         return end(MPI_Isendrecv(a.buffer, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, a.buffer, a.count, a.type, a.peer, a.tag,
                                  a.comm, &request),
                    request);
     }},
    {"Isendrecv_replace",
     [](const Arguments& a) {
         MPI_Request request = MPI_REQUEST_NULL;
         return end(MPI_Isendrecv_replace(a.buffer, a.count, a.type, a.peer, a.tag, MPI_PROC_NULL, 0, a.comm, &request),
                    request);
     }},
#endif
    {"Send_init", begun<MPI_Send_init>},
    {"Ssend_init", begun<MPI_Ssend_init>, true, true, false},
    {"Rsend_init", begun<MPI_Rsend_init>, true, true, false},
    {"Bsend_init", begun<MPI_Bsend_init>, true, true, false},
    {"Recv_init", begun<MPI_Recv_init>},
    {"Probe", [](const Arguments& a) { return MPI_Probe(a.peer, a.tag, a.comm, MPI_STATUS_IGNORE); }, false},
    {"Iprobe",
     [](const Arguments& a) {
         int there = 0;
         return MPI_Iprobe(a.peer, a.tag, a.comm, &there, MPI_STATUS_IGNORE);
     },
     false},
    {"Mprobe",
     [](const Arguments& a) {
         MPI_Message message = MPI_MESSAGE_NULL;
         return MPI_Mprobe(a.peer, a.tag, a.comm, &message, MPI_STATUS_IGNORE);
     },
     false},
    {"Improbe",
     [](const Arguments& a) {
         MPI_Message message = MPI_MESSAGE_NULL;
         int there = 0;
         return MPI_Improbe(a.peer, a.tag, a.comm, &there, &message, MPI_STATUS_IGNORE);
     },
     false},
};

// What is wrong.
enum class Fault : std::uint8_t { kRank, kNegativeRank, kTag, kCount, kNoType, kNotCommitted, kNoBuffer, kNoComm };
inline constexpr Fault kFaults[] = {Fault::kRank,   Fault::kNegativeRank, Fault::kTag,      Fault::kCount,
                                    Fault::kNoType, Fault::kNotCommitted, Fault::kNoBuffer, Fault::kNoComm};
inline const char* name(Fault fault) {
    constexpr const char* kNames[] = {
        "a rank that there is not",     "a negative rank", "a negative tag", "a negative count", "no type",
        "a type that is not committed", "no buffer",       "no communicator"};
    return kNames[static_cast<int>(fault)];
}
// Open MPI ends the job, whatever the handlers, when a receive of a matched message is given none, and when a probe is
// given no communicator.
constexpr bool can_have(const Shape& shape, Fault fault) {
    const bool of_buffer =
        fault == Fault::kCount || fault == Fault::kNoType || fault == Fault::kNotCommitted || fault == Fault::kNoBuffer;
    const bool needs_buffer = of_buffer || fault == Fault::kNoComm;
    return (shape.has_buffer || !needs_buffer) && (shape.has_peer || of_buffer) &&
           (shape.needs_address || fault != Fault::kNoBuffer);
}

// `right` with the fault; `raw` is a type that has not been committed, of one element of right.type.
inline Arguments with(Arguments right, Fault fault, MPI_Datatype raw) {
    int peers = 0;
    MPI_Comm_size(right.comm, &peers);
    switch (fault) {
        case Fault::kRank:
            right.peer = peers;
            break;
        case Fault::kNegativeRank:
            right.peer = -77;
            break;
        case Fault::kTag:
            right.tag = -77;
            break;
        case Fault::kCount:
            right.count = -1;
            break;
        case Fault::kNoType:
            right.type = MPI_DATATYPE_NULL;
            break;
        case Fault::kNotCommitted:
            right.type = raw;
            break;
        case Fault::kNoBuffer:
            right.buffer = nullptr;
            break;
        case Fault::kNoComm:
            right.comm = MPI_COMM_NULL;
            break;
    }
    return right;
}

}  // namespace erroneous
