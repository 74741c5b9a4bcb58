/* The "prefill" half of a language model's server: one job that has the key/value caches of sequences in device memory
 * and hands them to "decode" jobs (decode.c), which are started apart, come when they like, and go.
 *
 *     prefill FOLDER JOBS [PATIENCE]
 *
 * FOLDER is where the jobs find each other: the port's name is in its file `port`, and a decode job that wants to be
 * let in puts a file `arrival.*` there, which is renamed to `enter.*` when it may connect. So MPI_Comm_accept, which
 * waits, is called only when somebody is at the wrapper, the jobs that are connected are served meanwhile, and no two
 * jobs connect at once, at which Open MPI 4.1 hangs. It ends when JOBS decode jobs have gone. One that has not been
 * heard of for PATIENCE seconds (60) is given up, as is one that a message to it failed for: the others are served on.
 */
#include <dirent.h>

#include "kv_cache.h"

enum { MOST = 16 }; /* decode jobs at a time */

static struct Job {
    MPI_Comm comm;
    int number, served;
    double heard; /* MPI_Wtime() of its last word */
} jobs[MOST];
static int connected, arrived, lost;

/* What rank 0 has found to do, for all ranks. */
enum Kind { WAIT, ACCEPT, SERVE, PART, GIVE_UP };
struct Task {
    int kind, job, sequence;
};

static int let_somebody_in(const char* folder) {
    char path[4096], may_enter[4096];
    int found = 0;
    DIR* open = opendir(folder);
    if (open == NULL)
        give_up(folder, "cannot be read");
    for (struct dirent* entry; !found && (entry = readdir(open)) != NULL;)
        if (strncmp(entry->d_name, "arrival.", 8) == 0) {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            snprintf(may_enter, sizeof may_enter, "%s/enter.%s", folder, entry->d_name + 8);
            found = rename(path, may_enter) == 0;
        }
    closedir(open);
    return found;
}

/* Rank 0 looks around. */
static struct Task look(const char* folder, double patience) {
    struct Task task = {WAIT, 0, 0};
    for (int i = 0; i < connected; ++i) {
        int there = 0;
        if (MPI_Iprobe(0, ASK_TAG, jobs[i].comm, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return (struct Task){GIVE_UP, i, 0};
        if (there) {
            MPI_Recv(&task.sequence, 1, MPI_INT, 0, ASK_TAG, jobs[i].comm, MPI_STATUS_IGNORE);
            jobs[i].heard = MPI_Wtime();
            task.kind = task.sequence == LEAVE ? PART : SERVE;
            task.job = i;
            return task;
        }
        if (MPI_Wtime() - jobs[i].heard > patience)
            return (struct Task){GIVE_UP, i, 0};
    }
    if (connected < MOST && let_somebody_in(folder))
        task.kind = ACCEPT;
    else
        usleep(1000);
    return task;
}

static void accept_job(const char* port) {
    struct Job* job = &jobs[connected++];
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &job->comm);
    MPI_Comm_set_errhandler(job->comm, MPI_ERRORS_RETURN); /* its troubles are not the others' */
    job->number = arrived++;
    job->served = 0;
    job->heard = MPI_Wtime();
    if (rank == 0) {
        printf("prefill: decode job %d has come, %d here\n", job->number, connected);
        fflush(stdout);
    }
}

static void forget(int at) {
    jobs[at] = jobs[--connected];
}

static void part(int at) {
    if (rank == 0) {
        printf("prefill: decode job %d has gone with %d sequences\n", jobs[at].number, jobs[at].served);
        fflush(stdout);
    }
    MPI_Comm_disconnect(&jobs[at].comm);
    forget(at);
}

/* It cannot be disconnected: that waits for the other side. */
static void write_off(int at, const char* why) {
    if (rank == 0) {
        printf("prefill: decode job %d is lost: %s\n", jobs[at].number, why);
        fflush(stdout);
    }
    ++lost;
    forget(at);
}

/* A real program would have kernels do this. */
static void compute(int sequence, float* cache, float* on_host) {
    for (int layer = 0; layer < LAYERS; ++layer)
        for (int head = rank * HEADS / ranks; head < (rank + 1) * HEADS / ranks; ++head)
            for (int i = 0; i < HEAD; ++i)
                on_host[place_of(layer, head) + i] = value(sequence, layer, head, i);
    copy(cache, on_host, (size_t)LAYERS * HEADS / ranks * HEAD);
}

/* What this example is about: blocks of device memory to the ranks of a job that MPI did not start. All layers are
 * under way at once, and the first can be used when it is there. Returns MPI's code. */
static int hand_over(MPI_Comm to, const float* cache) {
    MPI_Request requests[LAYERS * HEADS];
    int others, first, count = 0;
    MPI_Comm_remote_size(to, &others);
    for (int layer = 0; layer < LAYERS; ++layer)
        for (int other = 0; other < others; ++other) {
            const int heads = common_heads(rank, ranks, other, others, &first);
            if (heads > 0)
                MPI_Isend(cache + place_of(layer, first), heads * HEAD, MPI_FLOAT, other, layer, to,
                          &requests[count++]);
        }
    MPI_Status statuses[LAYERS * HEADS];
    const int code = MPI_Waitall(count, requests, statuses);
    if (code != MPI_ERR_IN_STATUS)
        return code;
    for (int i = 0; i < count; ++i)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return statuses[i].MPI_ERROR;
    return code;
}

static void serve(struct Task task, float* cache, float* on_host) {
    compute(task.sequence, cache, on_host);
    const int code = hand_over(jobs[task.job].comm, cache);
    /* The first rank that failed tells all why. */
    char why[MPI_MAX_ERROR_STRING] = "";
    int length, failed = code == MPI_SUCCESS ? ranks : rank, first;
    MPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == ranks) {
        ++jobs[task.job].served;
        return;
    }
    if (rank == first)
        MPI_Error_string(code, why, &length);
    MPI_Bcast(why, sizeof why, MPI_CHAR, first, MPI_COMM_WORLD);
    write_off(task.job, why);
}

static void open_wrapper(const char* folder, char* port) {
    char draft[4096], path[4096];
    MPI_Open_port(MPI_INFO_NULL, port);
    snprintf(draft, sizeof draft, "%s/port.draft", folder);
    snprintf(path, sizeof path, "%s/port", folder);
    FILE* file = fopen(draft, "w");
    if (file == NULL || fputs(port, file) < 0 || fclose(file) != 0 || rename(draft, path) != 0)
        give_up(path, "cannot be written");
}

int main(int argc, char** argv) {
    char port[MPI_MAX_PORT_NAME] = "";
    start(&argc, &argv, "prefill");
    if (argc < 3)
        give_up("usage", "prefill FOLDER JOBS [PATIENCE]");
    const char* folder = argv[1];
    const int wanted = atoi(argv[2]);
    const double patience = argc > 3 ? atof(argv[3]) : 60;
    const size_t floats = (size_t)LAYERS * HEADS / ranks * HEAD;
    float *cache = allocate(floats), *on_host = malloc(floats * sizeof(float));
    if (on_host == NULL)
        give_up("memory", "none left");
    if (rank == 0)
        open_wrapper(folder, port);
    while (arrived < wanted || connected > 0) {
        struct Task task;
        if (rank == 0)
            task = look(folder, patience);
        MPI_Bcast(&task, 3, MPI_INT, 0, MPI_COMM_WORLD);
        if (task.kind == ACCEPT)
            accept_job(port);
        else if (task.kind == SERVE)
            serve(task, cache, on_host);
        else if (task.kind == PART)
            part(task.job);
        else if (task.kind == GIVE_UP)
            write_off(task.job, "not heard of");
    }
    if (rank == 0) {
        MPI_Close_port(port);
        printf("prefill: %d ranks, %s, %d decode jobs served, %d lost\n", ranks,
               on_gpu ? "device memory" : "no GPU: host memory", arrived - lost, lost);
        fflush(stdout);
    }
    release(cache);
    free(on_host);
    finish();
    return 0;
}
