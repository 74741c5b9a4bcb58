/* What prefill.c and decode.c have in common: the shape of a sequence's key/value cache, how its attention heads are
 * shared out among a job's ranks, the words of the two jobs, and memory on the GPU or, without one, on the host. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rank's part of a cache is [layer][its heads][keys, values][token][dimension], so what two ranks have in common of a
 * layer is one run of memory. */
enum { LAYERS = 4, HEADS = 4, TOKENS = 256, DIMENSIONS = 64, HEAD = 2 * TOKENS * DIMENSIONS /* floats of a head */ };

/* A decode job asks for a sequence by its number, or leaves. Payloads have the layer as their tag. */
enum { ASK_TAG = 100, LEAVE = -1 };

static int on_gpu, rank, ranks;
static const char* program;

static void give_up(const char* what, const char* why) {
    fprintf(stderr, "%s: %s: %s\n", program, what, why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        give_up(what, cudaGetErrorString(status));
}

static void start(int* argc, char*** argv, const char* name) {
    MPI_Comm node;
    int place, gpus = 0;
    program = name;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (HEADS % ranks != 0)
        give_up("ranks", "1, 2 or 4 can share the heads");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_free(&node);
    on_gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
    if (on_gpu)
        check(cudaSetDevice(place % gpus), "cudaSetDevice");
}

/* A job may have been spawned by another one, from which it parts as well. */
static void finish(void) {
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        MPI_Comm_disconnect(&parent);
    MPI_Finalize();
}

static float* allocate(size_t floats) {
    void* memory = NULL;
    if (on_gpu)
        check(cudaMalloc(&memory, floats * sizeof(float)), "cudaMalloc");
    else if ((memory = malloc(floats * sizeof(float))) == NULL)
        give_up("memory", "none left");
    return memory;
}

static void release(float* memory) {
    if (on_gpu)
        check(cudaFree(memory), "cudaFree");
    else
        free(memory);
}

static void copy(float* to, const float* from, size_t floats) {
    if (on_gpu)
        check(cudaMemcpy(to, from, floats * sizeof(float), cudaMemcpyDefault), "cudaMemcpy");
    else
        memcpy(to, from, floats * sizeof(float));
}

/* What attention would have computed: a value that says where it belongs. */
static float value(int sequence, int layer, int head, int at) {
    return (float)((sequence * 31 + layer * 7 + head) % 64 * HEAD + at);
}

/* The heads that rank `a` of `as` ranks and rank `b` of `bs` ranks both have: their number, and the first of them. */
static int common_heads(int a, int as, int b, int bs, int* first) {
    const int from_a = a * HEADS / as, to_a = (a + 1) * HEADS / as;
    const int from_b = b * HEADS / bs, to_b = (b + 1) * HEADS / bs;
    const int to = to_a < to_b ? to_a : to_b;
    *first = from_a > from_b ? from_a : from_b;
    return to > *first ? to - *first : 0;
}

static size_t place_of(int layer, int head) {
    const int mine = HEADS / ranks;
    return ((size_t)layer * mine + (head - rank * mine)) * HEAD;
}
