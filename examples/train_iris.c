/* Data-parallel training with gradients in device memory: a small neural network learns to tell three kinds of iris
 * apart.
 *
 * Every rank has a share of the flowers and a copy of the parameters on its GPU. Each step adds the ranks' gradients
 * with one MPI_Allreduce on device memory: with 17539 parameters, 70 KB, large enough to travel over NCCL. The
 * arithmetic between the MPI calls is done on the host, so that the program needs no kernels and runs on virtual GPUs
 * too; in a real program it would be kernels.
 *
 *   mpicc -O2 train_iris.c -o train_iris -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart -lm
 *   switchyard run -n 4 -- ./train_iris iris.csv                       on real GPUs
 *   switchyard run --virtual-gpus 4 -n 4 -- ./train_iris iris.csv      without any
 *
 * With a number of a step behind the file, the last rank ends itself before that step, as if its node had failed, and
 * the others go on without it. That takes an MPI with User-Level Failure Mitigation, such as Open MPI 5:
 *
 *   switchyard run --virtual-gpus 4 -n 4 --with-ft ulfm --mca async_mpi_finalize 1 -- ./train_iris iris.csv 40
 *
 * Exit status 0: the network names at least 94 % of the flowers that it has never seen, and all ranks together have
 * learned the same as one process alone. Without a GPU everything is in host memory and the result is the same. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h> /* MPIX_Query_cuda_support, MPIX_Comm_shrink */
#endif

enum { FLOWERS = 150, TRAINING = 100, INPUTS = 4, HIDDEN = 128, CLASSES = 3, STEPS = 150 };

/* The network's parameters as one array, so that one MPI call moves them all. */
enum {
    W1 = 0,
    B1 = W1 + INPUTS * HIDDEN,
    W2 = B1 + HIDDEN,
    B2 = W2 + HIDDEN * HIDDEN,
    W3 = B2 + HIDDEN,
    B3 = W3 + HIDDEN * CLASSES,
    PARAMETERS = B3 + CLASSES
};

static const float learning_rate = 0.1f;
static float features[FLOWERS][INPUTS];
static int species[FLOWERS];
static int on_gpu;

static void stop(const char* why) {
    fprintf(stderr, "train_iris: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "train_iris: %s: %s\n", what, cudaGetErrorString(status));
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* Memory on the GPU where there is one, on the host otherwise. */
static float* allocate(size_t count) {
    void* memory = NULL;
    if (on_gpu)
        check(cudaMalloc(&memory, count * sizeof(float)), "cudaMalloc");
    else if ((memory = malloc(count * sizeof(float))) == NULL)
        stop("out of memory");
    return memory;
}

static void release(float* memory) {
    if (on_gpu)
        check(cudaFree(memory), "cudaFree");
    else
        free(memory);
}

static void copy(float* to, const float* from, size_t count) {
    if (on_gpu)
        check(cudaMemcpy(to, from, count * sizeof(float), cudaMemcpyDefault), "cudaMemcpy");
    else
        memcpy(to, from, count * sizeof(float));
}

/* Takes the GPU that goes with this rank's place on its node. */
static void choose_gpu(void) {
    MPI_Comm node;
    int place, gpus = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_free(&node);
    on_gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
    if (!on_gpu)
        return;
    check(cudaSetDevice(place % gpus), "cudaSetDevice");
    check(cudaFree(NULL), "cudaFree"); /* makes the device ready */
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    if (!MPIX_Query_cuda_support())
        stop("this MPI does not take device memory; start with: switchyard run");
#endif
}

static int is_for_test(int flower) {
    return flower % 3 == 0;
}

static void read_flowers(const char* path) {
    static const char* names[CLASSES] = {"setosa", "versicolor", "virginica"};
    char line[256], name[32];
    FILE* file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL)
        stop("cannot read the flowers; usage: train_iris iris.csv");
    for (int i = 0; i < FLOWERS; ++i) {
        float* f = features[i];
        if (fgets(line, sizeof line, file) == NULL ||
            sscanf(line, "%f,%f,%f,%f,%31s", &f[0], &f[1], &f[2], &f[3], name) != 5)
            stop("iris.csv is not as it should be");
        for (species[i] = 0; species[i] < CLASSES && strcmp(name, names[species[i]]) != 0;)
            ++species[i];
        if (species[i] == CLASSES)
            stop("an unknown species in iris.csv");
    }
    fclose(file);
    for (int k = 0; k < INPUTS; ++k) { /* to mean 0 and variance 1 of the flowers to learn from */
        double sum = 0, squares = 0;
        for (int i = 0; i < FLOWERS; ++i) {
            sum += is_for_test(i) ? 0 : features[i][k];
        }
        for (int i = 0; i < FLOWERS; ++i) {
            squares += is_for_test(i) ? 0 : pow(features[i][k] - sum / TRAINING, 2);
        }
        for (int i = 0; i < FLOWERS; ++i) {
            features[i][k] = (float)((features[i][k] - sum / TRAINING) / sqrt(squares / TRAINING));
        }
    }
}

/* y = W x + b, with W stored row by row of x. */
static void layer(const float* w, const float* b, int in, int out, const float* x, float* y) {
    memcpy(y, b, (size_t)out * sizeof(float));
    for (int i = 0; i < in; ++i)
        for (int o = 0; o < out; ++o)
            y[o] += x[i] * w[i * out + o];
}

/* Adds to the gradients of W and b, and gives that of x, from that of y. */
static void layer_back(const float* w, int in, int out, const float* x, const float* dy, float* dw, float* db,
                       float* dx) {
    for (int o = 0; o < out; ++o)
        db[o] += dy[o];
    for (int i = 0; i < in; ++i) {
        float sum = 0;
        for (int o = 0; o < out; ++o) {
            dw[i * out + o] += x[i] * dy[o];
            sum += w[i * out + o] * dy[o];
        }
        if (dx != NULL)
            dx[i] = sum * (1 - x[i] * x[i]); /* through tanh, whose value is x */
    }
}

struct activations {
    float h1[HIDDEN], h2[HIDDEN], p[CLASSES];
};

static void forward(const float* net, int flower, struct activations* a) {
    float sum = 0;
    layer(net + W1, net + B1, INPUTS, HIDDEN, features[flower], a->h1);
    for (int i = 0; i < HIDDEN; ++i)
        a->h1[i] = tanhf(a->h1[i]);
    layer(net + W2, net + B2, HIDDEN, HIDDEN, a->h1, a->h2);
    for (int i = 0; i < HIDDEN; ++i)
        a->h2[i] = tanhf(a->h2[i]);
    layer(net + W3, net + B3, HIDDEN, CLASSES, a->h2, a->p);
    for (int c = 0; c < CLASSES; ++c)
        sum += a->p[c] = expf(a->p[c]);
    for (int c = 0; c < CLASSES; ++c)
        a->p[c] /= sum;
}

/* The summed gradient over every `of`-th training flower, starting at the `share`-th. */
static void gradient(const float* net, int share, int of, float* grad) {
    float d2[HIDDEN], d1[HIDDEN];
    struct activations a;
    memset(grad, 0, PARAMETERS * sizeof(float));
    for (int i = 0, nth = 0; i < FLOWERS; ++i) {
        if (is_for_test(i) || nth++ % of != share)
            continue;
        forward(net, i, &a);
        a.p[species[i]] -= 1; /* the gradient of the cross entropy */
        layer_back(net + W3, HIDDEN, CLASSES, a.h2, a.p, grad + W3, grad + B3, d2);
        layer_back(net + W2, HIDDEN, HIDDEN, a.h1, d2, grad + W2, grad + B2, d1);
        layer_back(net + W1, INPUTS, HIDDEN, features[i], d1, grad + W1, grad + B1, NULL);
    }
}

static void descend(float* net, const float* grad) {
    for (int i = 0; i < PARAMETERS; ++i)
        net[i] -= learning_rate * grad[i] / TRAINING;
}

static void initialise(float* net) {
    unsigned long long state = 1;
    for (int i = 0; i < PARAMETERS; ++i) { /* the same numbers everywhere; uniform, scaled to the layer's inputs */
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        float scale = sqrtf(3.0f / (i < W2 ? INPUTS : HIDDEN));
        net[i] = scale * ((float)(state >> 40) / (1 << 23) - 1);
    }
}

static double accuracy(const float* net) {
    struct activations a;
    int right = 0, all = 0;
    for (int i = 0; i < FLOWERS; ++i) {
        if (!is_for_test(i))
            continue;
        forward(net, i, &a);
        int best = a.p[1] > a.p[0] ? 1 : 0;
        best = a.p[2] > a.p[best] ? 2 : best;
        right += best == species[i];
        ++all;
    }
    return (double)right / all;
}

/* The ranks that train together: all at first, those that are left later. */
struct team {
    MPI_Comm comm;
    int rank, ranks;
};

static struct team everybody(void) {
    struct team team = {MPI_COMM_WORLD, 0, 0};
    MPI_Comm_rank(team.comm, &team.rank);
    MPI_Comm_size(team.comm, &team.ranks);
    return team;
}

#if defined(OMPI_HAVE_MPI_EXT_FTMPI)
/* Goes on without the ranks that have failed. Those that are left may have done the last step or not: they take the
 * parameters of one that has come furthest. Returns the step to go on with. */
static int go_on_without(struct team* team, float* net, float* parameters, int step) {
    MPI_Comm left;
    struct {
        int step, rank;
    } mine, furthest;
    MPIX_Comm_revoke(team->comm); /* whoever still waits for the failed rank gets an error too */
    if (MPIX_Comm_shrink(team->comm, &left) != MPI_SUCCESS)
        stop("the ranks that are left cannot go on");
    team->comm = left;
    MPI_Comm_rank(left, &team->rank);
    MPI_Comm_size(left, &team->ranks);
    mine.step = step;
    mine.rank = team->rank;
    MPI_Allreduce(&mine, &furthest, 1, MPI_2INT, MPI_MAXLOC, left);
    copy(parameters, net, PARAMETERS);
    MPI_Bcast(parameters, PARAMETERS, MPI_FLOAT, furthest.rank, left);
    copy(net, parameters, PARAMETERS);
    if (team->rank == 0)
        printf("train_iris: a rank has failed, %d go on with step %d\n", team->ranks, furthest.step);
    return furthest.step;
}
#else
static int go_on_without(struct team* team, float* net, float* parameters, int step) {
    (void)team, (void)net, (void)parameters, (void)step;
    stop("this MPI cannot go on without a rank");
    return 0;
}
#endif

/* What this example is about: MPI_Bcast and MPI_Allreduce on memory of the GPU. */
static void train(struct team* team, float* net, int fails_at) {
    static float host_grad[PARAMETERS];
    const int last = team->ranks - 1;
    float *parameters = allocate(PARAMETERS), *grad = allocate(PARAMETERS);
    if (team->rank == 0)
        initialise(net);
    copy(parameters, net, PARAMETERS);
    MPI_Bcast(parameters, PARAMETERS, MPI_FLOAT, 0, team->comm);
    copy(net, parameters, PARAMETERS);
    if (fails_at >= 0) /* else an error ends the program, which is MPI's default */
        MPI_Comm_set_errhandler(team->comm, MPI_ERRORS_RETURN);
    for (int step = 0; step < STEPS;) {
        if (step == fails_at && team->rank == last)
            raise(SIGKILL);
        gradient(net, team->rank, team->ranks, host_grad);
        copy(grad, host_grad, PARAMETERS);
        if (MPI_Allreduce(MPI_IN_PLACE, grad, PARAMETERS, MPI_FLOAT, MPI_SUM, team->comm) != MPI_SUCCESS) {
            step = go_on_without(team, net, parameters, step);
            continue;
        }
        copy(host_grad, grad, PARAMETERS);
        descend(net, host_grad);
        ++step;
    }
    copy(parameters, net, PARAMETERS);
    MPI_Allreduce(parameters, grad, PARAMETERS, MPI_FLOAT, MPI_MAX, team->comm);
    copy(host_grad, grad, PARAMETERS);
    if (memcmp(net, host_grad, sizeof host_grad) != 0)
        stop("the ranks have learned different parameters");
    release(parameters);
    release(grad);
}

int main(int argc, char** argv) {
    static float net[PARAMETERS], alone[PARAMETERS], grad[PARAMETERS];
    int gpus, failed = 0;
    MPI_Init(&argc, &argv);
    struct team team = everybody();
    const int ranks = team.ranks;
    choose_gpu();
    MPI_Reduce(&on_gpu, &gpus, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (team.rank == 0)
        printf("train_iris: %d rank%s, %s\n", ranks, ranks == 1 ? "" : "s",
               gpus == ranks ? "device memory"
               : gpus == 0   ? "no GPU: host memory"
                             : "device and host memory");
    read_flowers(argc > 1 ? argv[1] : "iris.csv");
    train(&team, net, argc > 2 ? atoi(argv[2]) : -1);
    if (team.rank == 0) {
        float worst = 0;
        initialise(alone);
        for (int step = 0; step < STEPS; ++step) {
            gradient(alone, 0, 1, grad);
            descend(alone, grad);
        }
        for (int i = 0; i < PARAMETERS; ++i)
            worst = fmaxf(worst, fabsf(net[i] - alone[i]));
        failed = accuracy(net) < 0.94 || !(worst < 1e-3f);
        printf(
            "train_iris: %.0f %% of the unseen flowers named rightly; largest difference to one process alone: "
            "%.1e\n%s\n",
            100 * accuracy(net), worst, failed ? "FAILED" : "passed");
    }
    MPI_Finalize();
    return failed;
}
