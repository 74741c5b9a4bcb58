// The sweep's cases of send and receive. The other side of each message is a host buffer: the witness.
#include <cstdlib>

#include "sweep.hpp"

namespace sweep {
namespace {

constexpr int kTag = 4;

// One send to the next rank, received from the previous one into the witness.
template <typename Send>
int send(const World& w, int* const* b, Send function) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(b[1], w.n, MPI_INT, w.previous(), kTag, w.comm, &request);
    MPI_Barrier(w.comm);  // MPI_Rsend needs the receive posted
    const int code = function(b[0], w.n, MPI_INT, w.next(), kTag, w.comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code;
}

// A message that is shorter than the receive's buffer: what is behind it must stay, the status must say how long it is.
template <typename Receive>
int receive(const World& w, int* const* b, Receive function) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int length = w.n - 2;
    MPI_Isend(b[1], length, MPI_INT, w.next(), kTag, w.comm, &request);
    MPI_Status status;
    const int code = function(b[0], &status);
    MPI_Get_count(&status, MPI_INT, &b[2][0]);
    b[2][1] = status.MPI_SOURCE;
    b[2][2] = status.MPI_TAG;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code;
}

int recv(const World& w, int* const* b) {
    return receive(w, b, [&](int* buffer, MPI_Status* status) {
        return MPI_Recv(buffer, w.n, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, w.comm, status);
    });
}

// What a probe says of a message is what its receive says.
template <typename Probe>
int probe(const World& w, int* const* b, Probe function) {
    return receive(w, b, [&](int* buffer, MPI_Status* status) {
        MPI_Status probed;
        int flag = 0;
        int code = MPI_SUCCESS;
        while (flag == 0 && code == MPI_SUCCESS)
            code = function(&flag, &probed);
        int count = 0;
        MPI_Get_count(&probed, MPI_INT, &count);
        if (code == MPI_SUCCESS)
            code = MPI_Recv(buffer, count, MPI_INT, probed.MPI_SOURCE, probed.MPI_TAG, w.comm, status);
        return code;
    });
}

template <typename Probe>
int matched_probe(const World& w, int* const* b, Probe function) {
    return receive(w, b, [&](int* buffer, MPI_Status* status) {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status probed;
        int flag = 0;
        int code = MPI_SUCCESS;
        while (flag == 0 && code == MPI_SUCCESS)
            code = function(&flag, &message, &probed);
        int count = 0;
        MPI_Get_count(&probed, MPI_INT, &count);
        return code == MPI_SUCCESS ? MPI_Mrecv(buffer, count, MPI_INT, &message, status) : code;
    });
}

int blocking_probe(const World& w, int* const* b) {
    return probe(w, b, [&](int* flag, MPI_Status* status) {
        *flag = 1;
        return MPI_Probe(w.previous(), kTag, w.comm, status);
    });
}

int iprobe(const World& w, int* const* b) {
    return probe(w, b, [&](int* flag, MPI_Status* status) {
        return MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w.comm, flag, status);
    });
}

int mprobe(const World& w, int* const* b) {
    return matched_probe(w, b, [&](int* flag, MPI_Message* message, MPI_Status* status) {
        *flag = 1;
        return MPI_Mprobe(MPI_ANY_SOURCE, kTag, w.comm, message, status);
    });
}

int improbe(const World& w, int* const* b) {
    return matched_probe(w, b, [&](int* flag, MPI_Message* message, MPI_Status* status) {
        return MPI_Improbe(w.previous(), MPI_ANY_TAG, w.comm, flag, message, status);
    });
}

int mrecv(const World& w, int* const* b) {
    return receive(w, b, [&](int* buffer, MPI_Status* status) {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Mprobe(w.previous(), kTag, w.comm, &message, MPI_STATUS_IGNORE);
        return MPI_Mrecv(buffer, w.n, MPI_INT, &message, status);
    });
}

int sendrecv(const World& w, int* const* b) {
    return MPI_Sendrecv(b[0], w.n, MPI_INT, w.next(), kTag, b[1], w.n, MPI_INT, w.previous(), kTag, w.comm,
                        MPI_STATUS_IGNORE);
}

int sendrecv_replace(const World& w, int* const* b) {
    return MPI_Sendrecv_replace(b[0], w.n, MPI_INT, w.next(), kTag, w.previous(), kTag, w.comm, MPI_STATUS_IGNORE);
}

int to_nobody(const World& w, int* const* b) {
    return MPI_Send(b[0], w.n, MPI_INT, MPI_PROC_NULL, kTag, w.comm);
}

int from_nobody(const World& w, int* const* b) {
    return MPI_Recv(b[0], w.n, MPI_INT, MPI_PROC_NULL, kTag, w.comm, MPI_STATUS_IGNORE);
}

// A non-blocking call is a blocking one that is waited for.
template <typename Begin>
auto waited(Begin begin) {
    return [begin](auto... arguments) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = begin(arguments..., &request);
        const int waited = MPI_Wait(&request, MPI_STATUS_IGNORE);
        return code != MPI_SUCCESS ? code : waited;
    };
}

// A persistent one is the same, started.
template <typename Make>
auto started(Make make) {
    return [make](auto... arguments) {
        MPI_Request request = MPI_REQUEST_NULL;
        int code = make(arguments..., &request);
        if (code == MPI_SUCCESS)
            code = MPI_Start(&request);
        const int waited = MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        return code != MPI_SUCCESS ? code : waited;
    };
}

template <typename Send>
int buffered_by(const World& w, int* const* b, Send function) {
    std::vector<char> space(static_cast<std::size_t>(w.n) * sizeof(int) + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(space.data(), static_cast<int>(space.size()));
    const int code = send(w, b, function);
    void* detached = nullptr;
    int size = 0;
    MPI_Buffer_detach(&detached, &size);
    return code;
}

int irecv(const World& w, int* const* b) {
    return receive(w, b, [&](int* buffer, MPI_Status* status) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = MPI_Irecv(buffer, w.n, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, w.comm, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
    });
}

int imrecv(const World& w, int* const* b) {
    return receive(w, b, [&](int* buffer, MPI_Status* status) {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Mprobe(w.previous(), kTag, w.comm, &message, MPI_STATUS_IGNORE);
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = MPI_Imrecv(buffer, w.n, MPI_INT, &message, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
    });
}

int recv_init(const World& w, int* const* b) {
    return receive(w, b, [&](int* buffer, MPI_Status* status) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Recv_init(buffer, w.n, MPI_INT, w.previous(), kTag, w.comm, &request);
        int code = MPI_Start(&request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, status);
        MPI_Request_free(&request);
        return code;
    });
}

#if OMPI_MAJOR_VERSION >= 5
int isendrecv(const World& w, int* const* b) {
    return waited(MPI_Isendrecv)(b[0], w.n, MPI_INT, w.next(), kTag, b[1], w.n, MPI_INT, w.previous(), kTag, w.comm);
}

int isendrecv_replace(const World& w, int* const* b) {
    return waited(MPI_Isendrecv_replace)(b[0], w.n, MPI_INT, w.next(), kTag, w.previous(), kTag, w.comm);
}
#endif

Ints block(const World& w) {
    return {w.n};
}
Ints two_blocks(const World& w) {
    return {w.n, w.n};
}
Ints two_blocks_and_status(const World& w) {
    return {w.n, w.n, 3};
}

}  // namespace

std::vector<Case> send_receive_cases() {
    return {
        {"MPI_Send", "", 1, two_blocks, [](const World& w, int* const* b) { return send(w, b, MPI_Send); }},
            {"MPI_Ssend", "", 1, two_blocks, [](const World& w, int* const* b) { return send(w, b, MPI_Ssend); }},
            {"MPI_Rsend", "", 1, two_blocks, [](const World& w, int* const* b) { return send(w, b, MPI_Rsend); }},
            {"MPI_Bsend", "", 1, two_blocks,
             [](const World& w, int* const* b) { return buffered_by(w, b, MPI_Bsend); }},
            {"MPI_Send", "to MPI_PROC_NULL", 1, block, to_nobody}, {"MPI_Recv", "", 1, two_blocks_and_status, recv},
            {"MPI_Recv", "from MPI_PROC_NULL", 1, block, from_nobody},
            {"MPI_Mrecv", "", 1, two_blocks_and_status, mrecv},
            {"MPI_Probe", "", 1, two_blocks_and_status, blocking_probe},
            {"MPI_Iprobe", "", 1, two_blocks_and_status, iprobe}, {"MPI_Mprobe", "", 1, two_blocks_and_status, mprobe},
            {"MPI_Improbe", "", 1, two_blocks_and_status, improbe},
            {"MPI_Isend", "", 1, two_blocks,
             [](const World& w, int* const* b) { return send(w, b, waited(MPI_Isend)); }},
            {"MPI_Issend", "", 1, two_blocks,
             [](const World& w, int* const* b) { return send(w, b, waited(MPI_Issend)); }},
            {"MPI_Irsend", "", 1, two_blocks,
             [](const World& w, int* const* b) { return send(w, b, waited(MPI_Irsend)); }},
            {"MPI_Ibsend", "", 1, two_blocks,
             [](const World& w, int* const* b) { return buffered_by(w, b, waited(MPI_Ibsend)); }},
            {"MPI_Irecv", "", 1, two_blocks_and_status, irecv}, {"MPI_Imrecv", "", 1, two_blocks_and_status, imrecv},
            {"MPI_Send_init", "", 1, two_blocks,
             [](const World& w, int* const* b) { return send(w, b, started(MPI_Send_init)); }},
            {"MPI_Ssend_init", "", 1, two_blocks,
             [](const World& w, int* const* b) { return send(w, b, started(MPI_Ssend_init)); }},
            {"MPI_Rsend_init", "", 1, two_blocks,
             [](const World& w, int* const* b) { return send(w, b, started(MPI_Rsend_init)); }},
            {"MPI_Bsend_init", "", 1, two_blocks,
             [](const World& w, int* const* b) { return buffered_by(w, b, started(MPI_Bsend_init)); }},
            {"MPI_Recv_init", "", 1, two_blocks_and_status, recv_init},
#if OMPI_MAJOR_VERSION >= 5
            {"MPI_Isendrecv", "", 2, two_blocks, isendrecv}, {"MPI_Isendrecv_replace", "", 1, block, isendrecv_replace},
#endif
            {"MPI_Sendrecv", "", 2, two_blocks, sendrecv}, {"MPI_Sendrecv_replace", "", 1, block, sendrecv_replace},
    };
}

}  // namespace sweep
