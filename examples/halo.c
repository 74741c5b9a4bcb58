/* Conway's game of life on a torus: each rank has a strip of the board in device memory and exchanges the strip's edges
 * with its neighbours, by MPI_Irecv, MPI_Isend and MPI_Waitall on that memory. The edges are large enough to go over
 * NCCL once the ranks have exchanged a few megabytes. At the end rank 0 plays the same game alone and compares. Without
 * a GPU everything is in host memory. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1 << 17, ROWS = 3, GENERATIONS = 60 }; /* cells of a byte; rows of each rank's strip */

static int on_gpu;

static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "halo: %s: %s\n", what, cudaGetErrorString(status));
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static unsigned char* allocate(size_t bytes) {
    void* memory = NULL;
    if (on_gpu)
        check(cudaMalloc(&memory, bytes), "cudaMalloc");
    else if ((memory = malloc(bytes)) == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return memory;
}

static void copy(void* to, const void* from, size_t bytes) {
    if (on_gpu)
        check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    else
        memcpy(to, from, bytes);
}

static void choose_gpu(void) {
    MPI_Comm node;
    int place, gpus = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_free(&node);
    on_gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
    if (on_gpu)
        check(cudaSetDevice(place % gpus), "cudaSetDevice");
}

static void fill(unsigned char* cells, int first_row, int rows) {
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < WIDTH; ++x) {
            unsigned v = (unsigned)(first_row + y) * 2654435761u ^ (unsigned)x * 2246822519u;
            v = (v ^ v >> 15) * 2246822519u;
            cells[(size_t)y * WIDTH + x] = (v ^ v >> 13) % 3 == 0;
        }
}

/* One generation of `rows` rows that have a row above and one below them. */
static void play(const unsigned char* old, unsigned char* now, int rows) {
    for (int y = 1; y <= rows; ++y)
        for (int x = 0; x < WIDTH; ++x) {
            const int left = (x + WIDTH - 1) % WIDTH, right = (x + 1) % WIDTH;
            int alive = -old[(size_t)y * WIDTH + x];
            for (int row = y - 1; row <= y + 1; ++row) {
                const unsigned char* r = old + (size_t)row * WIDTH;
                alive += r[left] + r[x] + r[right];
            }
            now[(size_t)y * WIDTH + x] = alive == 3 || (alive == 2 && old[(size_t)y * WIDTH + x]);
        }
}

/* What this example is about. The strip is rows 1 to ROWS; rows 0 and ROWS + 1 are the neighbours'. */
static void exchange(unsigned char* strip, int up, int down) {
    MPI_Request requests[4];
    MPI_Irecv(strip, WIDTH, MPI_BYTE, up, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(strip + (size_t)(ROWS + 1) * WIDTH, WIDTH, MPI_BYTE, down, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(strip + (size_t)ROWS * WIDTH, WIDTH, MPI_BYTE, down, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(strip + WIDTH, WIDTH, MPI_BYTE, up, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static int same_as_alone(const unsigned char* board, int ranks) {
    const size_t all = (size_t)ranks * ROWS * WIDTH;
    unsigned char *old = malloc(all + 2 * WIDTH), *now = malloc(all + 2 * WIDTH);
    if (old == NULL || now == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    fill(old + WIDTH, 0, ranks * ROWS);
    for (int step = 0; step < GENERATIONS; ++step) {
        memcpy(old, old + all, WIDTH);
        memcpy(old + all + WIDTH, old + WIDTH, WIDTH);
        play(old, now, ranks * ROWS);
        memcpy(old + WIDTH, now + WIDTH, all);
    }
    const int same = memcmp(old + WIDTH, board, all) == 0;
    free(old);
    free(now);
    return same;
}

int main(int argc, char** argv) {
    const size_t cells = (size_t)ROWS * WIDTH, with_halo = cells + 2 * WIDTH;
    int rank, ranks, good = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    choose_gpu();
    unsigned char *old = malloc(with_halo), *now = malloc(with_halo), *board = rank == 0 ? malloc(cells * ranks) : NULL;
    if (old == NULL || now == NULL || (rank == 0 && board == NULL))
        MPI_Abort(MPI_COMM_WORLD, 2);
    unsigned char* strip = allocate(with_halo);
    fill(old + WIDTH, rank * ROWS, ROWS);
    copy(strip, old, with_halo);
    for (int step = 0; step < GENERATIONS; ++step) {
        exchange(strip, (rank + ranks - 1) % ranks, (rank + 1) % ranks);
        copy(old, strip, with_halo); /* a real program would have a kernel do what follows */
        play(old, now, ROWS);
        copy(strip + WIDTH, now + WIDTH, cells);
    }
    MPI_Gather(strip + WIDTH, (int)cells, MPI_BYTE, board, (int)cells, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        good = same_as_alone(board, ranks);
        printf("halo: %d ranks, %s, %d generations of %d x %d cells: %s\n", ranks,
               on_gpu ? "device memory" : "no GPU: host memory", GENERATIONS, WIDTH, ROWS * ranks,
               good ? "passed" : "FAILED");
    }
    if (on_gpu)
        check(cudaFree(strip), "cudaFree");
    else
        free(strip);
    free(old);
    free(now);
    free(board);
    MPI_Finalize();
    return !good;
}
