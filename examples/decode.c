/* The "decode" half: a job of its own that comes to a prefill job (prefill.c), fetches the key/value caches of some
 * sequences into device memory, checks them, and goes. It may have another number of ranks than the prefill job.
 *
 *     decode FOLDER FIRST COUNT [PAUSE]
 *
 * fetches the sequences FIRST to FIRST + COUNT - 1 and waits PAUSE milliseconds after each. With COUNT 0 it goes on
 * until there is a file `enough` in FOLDER. */
#include "kv_cache.h"

static void find_port(const char* folder, char* port) {
    char path[4096];
    FILE* file;
    snprintf(path, sizeof path, "%s/port", folder);
    while ((file = fopen(path, "r")) == NULL)
        usleep(10000); /* the prefill job is not up yet */
    if (fgets(port, MPI_MAX_PORT_NAME, file) == NULL)
        give_up(path, "cannot be read");
    fclose(file);
}

/* Returns when this job, and no other, may connect. */
static void knock(const char* folder) {
    char host[256] = "", arrival[4096], may_enter[4096];
    gethostname(host, sizeof host - 1);
    snprintf(arrival, sizeof arrival, "%s/arrival.%s.%ld", folder, host, (long)getpid());
    snprintf(may_enter, sizeof may_enter, "%s/enter.%s.%ld", folder, host, (long)getpid());
    FILE* file = fopen(arrival, "w");
    if (file == NULL || fclose(file) != 0)
        give_up(arrival, "cannot be written");
    while (unlink(may_enter) != 0)
        usleep(1000);
}

/* What this example is about. */
static void fetch(MPI_Comm from, int sequence, float* cache) {
    MPI_Request requests[LAYERS * HEADS];
    int others, first, count = 0;
    MPI_Comm_remote_size(from, &others);
    for (int layer = 0; layer < LAYERS; ++layer)
        for (int other = 0; other < others; ++other) {
            const int heads = common_heads(rank, ranks, other, others, &first);
            if (heads > 0)
                MPI_Irecv(cache + place_of(layer, first), heads * HEAD, MPI_FLOAT, other, layer, from,
                          &requests[count++]);
        }
    if (rank == 0)
        MPI_Send(&sequence, 1, MPI_INT, 0, ASK_TAG, from);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static int goes_on(const char* folder, int done, int count) {
    char path[4096];
    int more = done < count;
    snprintf(path, sizeof path, "%s/enough", folder);
    if (count == 0)
        more = access(path, F_OK) != 0;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return more;
}

static int is_right(int sequence, const float* cache, float* on_host) {
    copy(on_host, cache, (size_t)LAYERS * HEADS / ranks * HEAD);
    for (int layer = 0; layer < LAYERS; ++layer)
        for (int head = rank * HEADS / ranks; head < (rank + 1) * HEADS / ranks; ++head)
            for (int i = 0; i < HEAD; ++i)
                if (on_host[place_of(layer, head) + i] != value(sequence, layer, head, i)) {
                    fprintf(stderr, "decode: sequence %d, layer %d, head %d, place %d is wrong\n", sequence, layer,
                            head, i);
                    return 0;
                }
    return 1;
}

int main(int argc, char** argv) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm prefill;
    int good = 1, all_good = 1;
    start(&argc, &argv, "decode");
    if (argc < 4)
        give_up("usage", "decode FOLDER FIRST COUNT [PAUSE]");
    const int first = atoi(argv[2]), count = atoi(argv[3]), pause = argc > 4 ? atoi(argv[4]) : 0, leave = LEAVE;
    const size_t floats = (size_t)LAYERS * HEADS / ranks * HEAD;
    float *cache = allocate(floats), *on_host = malloc(floats * sizeof(float));
    if (on_host == NULL)
        give_up("memory", "none left");
    if (rank == 0) {
        find_port(argv[1], port);
        knock(argv[1]);
    }
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &prefill);
    int done = 0;
    for (; all_good && goes_on(argv[1], done, count); ++done) {
        const int sequence = first + done;
        memset(on_host, 0, floats * sizeof(float));
        copy(cache, on_host, floats);
        fetch(prefill, sequence, cache);
        good = is_right(sequence, cache, on_host);
        MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("decode: sequence %d: %s\n", sequence, all_good ? "good" : "WRONG");
            fflush(stdout);
        }
        usleep((useconds_t)pause * 1000);
    }
    if (rank == 0)
        MPI_Send(&leave, 1, MPI_INT, 0, ASK_TAG, prefill);
    MPI_Comm_disconnect(&prefill);
    if (rank == 0) {
        printf("decode: %d ranks, %s, %d sequences: %s\n", ranks, on_gpu ? "device memory" : "no GPU: host memory",
               done, all_good ? "passed" : "FAILED");
        fflush(stdout);
    }
    release(cache);
    free(on_host);
    finish();
    return !all_good;
}
