/* Sends messages of random forms, sizes and communicators, drawn from the seed in its argument, and prints a line for
 * each one that leaves device memory and is large: "sent FROM TO TAG BYTES", ranks being those of MPI_COMM_WORLD.
 * trace.test compares these with the trace's arrows. Every rank draws the same numbers: in each round each rank sends
 * to one rank, and receives from one. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 80, MOST = 4, LARGE = 1 << 19, SMALL = 200, ROOM = 2 * LARGE, RANKS = 16 };
enum { SENDRECV, NON_BLOCKING, PERSISTENT, BLOCKING_SEND, BLOCKING_RECEIVE, PROBED, MATCHED, WAYS };

static int rank, ranks;
static MPI_Comm comms[2]; /* the second one has the ranks in the opposite order */
static char *device_out, *device_in, *host_out, *host_in;

static void check(cudaError_t status) {
    if (status != cudaSuccess) {
        fprintf(stderr, "random_messages: %s\n", cudaGetErrorString(status));
        exit(3);
    }
}

static int draw(int below) {
    return (int)(lrand48() % below);
}

/* One round's messages from this rank to `to`, and from `from` to this rank; both are ranks of `comm`. */
struct round {
    MPI_Comm comm;
    int from, to, bytes, tag, any_source, any_tag;
    char *out, *in;
};

static int source(const struct round* r) {
    return r->any_source ? MPI_ANY_SOURCE : r->from;
}

static int tag_of_receive(const struct round* r) {
    return r->any_tag ? MPI_ANY_TAG : r->tag;
}

static void in_flight(const struct round* r, int count) {
    MPI_Request requests[2 * MOST];
    for (int i = 0; i < count; ++i)
        MPI_Irecv(r->in + i * ROOM, r->bytes, MPI_BYTE, source(r), tag_of_receive(r), r->comm, &requests[i]);
    for (int i = 0; i < count; ++i)
        MPI_Isend(r->out, r->bytes, MPI_BYTE, r->to, r->tag, r->comm, &requests[count + i]);
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
}

static void persistent(const struct round* r, int count) {
    MPI_Request requests[2];
    MPI_Recv_init(r->in, r->bytes, MPI_BYTE, source(r), tag_of_receive(r), r->comm, &requests[0]);
    MPI_Send_init(r->out, r->bytes, MPI_BYTE, r->to, r->tag, r->comm, &requests[1]);
    for (int i = 0; i < count; ++i) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void one(const struct round* r, int way) {
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    if (way == SENDRECV) {
        MPI_Sendrecv(r->out, r->bytes, MPI_BYTE, r->to, r->tag, r->in, r->bytes, MPI_BYTE, source(r), tag_of_receive(r),
                     r->comm, &status);
        return;
    }
    if (way == BLOCKING_SEND) {
        MPI_Irecv(r->in, r->bytes, MPI_BYTE, source(r), tag_of_receive(r), r->comm, &request);
        MPI_Send(r->out, r->bytes, MPI_BYTE, r->to, r->tag, r->comm);
    } else {
        MPI_Isend(r->out, r->bytes, MPI_BYTE, r->to, r->tag, r->comm, &request);
        if (way == PROBED)
            MPI_Probe(source(r), tag_of_receive(r), r->comm, &status);
        if (way == MATCHED) {
            MPI_Mprobe(source(r), tag_of_receive(r), r->comm, &message, &status);
            MPI_Mrecv(r->in, r->bytes, MPI_BYTE, &message, &status);
        } else {
            MPI_Recv(r->in, r->bytes, MPI_BYTE, source(r), tag_of_receive(r), r->comm, &status);
        }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Draws who sends to whom: order[i] sends to the one after it. */
static void draw_neighbours(struct round* r, int here) {
    int order[RANKS];
    for (int i = 0; i < ranks; ++i) {
        const int at = draw(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < ranks; ++i)
        if (order[i] == here) {
            r->to = order[(i + 1) % ranks];
            r->from = order[(i + ranks - 1) % ranks];
        }
}

static void play(int number) {
    const int which = draw(2), way = draw(WAYS), count = way == NON_BLOCKING || way == PERSISTENT ? 1 + draw(MOST) : 1;
    const int large = draw(4) != 0, from_device = draw(5) != 0, to_device = draw(3) != 0;
    struct round r = {.comm = comms[which], .tag = number, .any_source = draw(2), .any_tag = draw(2)};
    r.bytes = large ? LARGE + draw(LARGE) : 1 + draw(SMALL);
    r.out = from_device ? device_out : host_out;
    r.in = to_device ? device_in : host_in;
    draw_neighbours(&r, which == 0 ? rank : ranks - 1 - rank);
    if (way == NON_BLOCKING)
        in_flight(&r, count);
    else if (way == PERSISTENT)
        persistent(&r, count);
    else
        one(&r, way);
    for (int i = 0; i < count && large && from_device; ++i)
        printf("sent %d %d %d %d\n", rank, which == 0 ? r.to : ranks - 1 - r.to, r.tag, r.bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    int devices = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2 || ranks > RANKS) {
        fprintf(stderr, "usage: random_messages SEED, on at most %d ranks\n", RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    srand48(atol(argv[1]));
    check(cudaGetDeviceCount(&devices));
    check(cudaSetDevice(rank % devices));
    check(cudaMalloc((void**)&device_out, ROOM));
    check(cudaMalloc((void**)&device_in, MOST * ROOM));
    check(cudaMemset(device_out, rank, ROOM));
    host_out = calloc(1, ROOM);
    host_in = calloc(MOST, ROOM);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
    for (int i = 0; i < ROUNDS; ++i)
        play(i);
    MPI_Comm_free(&comms[1]);
    check(cudaFree(device_in));
    check(cudaFree(device_out));
    free(host_in);
    free(host_out);
    MPI_Finalize();
    return 0;
}
