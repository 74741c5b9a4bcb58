// Arguments at which MPI does not look on a rank may be anything: those that are significant at the root alone, send
// arguments beside MPI_IN_PLACE, and all of a rank's that has no part in a collective between groups (MPI 4.0 sections
// 6.2.3 and 6.4 to 6.9). Here they are addresses, counts and types that no program may use. Results are compared with
// arithmetic. With --host the program passes host memory alone.
// clang-format off
// launch: -n 3 --plain -- --host
// launch: -n 3 --gpus 3 -- --host
// launch: -n 3 --gpus 3
// launch: -n 4 --gpus 4 -x SWITCHYARD_EAGER=1
// launch: -n 3 --gpus 3 -x SWITCHYARD_AGREE=mpi -x SWITCHYARD_EAGER=1
// launch: -n 3 --gpus 1
// test-timeout: 120
// clang-format on
#include <mpi.h>

#include <mpi-ext.h>  // needs mpi.h

#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#define INIT(name) MPIX_##name##_init
#endif

// Makes the collective in one of its forms; the arguments end with the communicator.
#define CALL(form, Name, name, ...)                                  \
    do {                                                             \
        MPI_Request made = MPI_REQUEST_NULL;                         \
        if ((form) == Form::kBlocking)                               \
            MPI_##Name(__VA_ARGS__);                                 \
        else if ((form) == Form::kNonblocking)                       \
            MPI_I##name(__VA_ARGS__, &made);                         \
        else                                                         \
            INIT(Name)(__VA_ARGS__, MPI_INFO_NULL, &made);           \
        for (int i = 0; (form) == Form::kPersistent && i < 2; ++i) { \
            MPI_Start(&made);                                        \
            if (i == 0)                                              \
                MPI_Wait(&made, MPI_STATUS_IGNORE);                  \
        }                                                            \
        MPI_Wait(&made, MPI_STATUS_IGNORE);                          \
        if (made != MPI_REQUEST_NULL)                                \
            MPI_Request_free(&made);                                 \
    } while (false)

namespace {

enum class Form { kBlocking, kNonblocking, kPersistent };
constexpr const char* kForms[] = {"blocking", "non-blocking", "persistent"};
constexpr int kInvalid = -7;
constexpr int kUntouched = -1;

int world_rank = 0, failures = 0;
std::string now;

void* no_address() {
    return reinterpret_cast<void*>(0x10);
}
int* no_numbers() {
    return reinterpret_cast<int*>(0x10);
}
MPI_Datatype no_type() {
    return reinterpret_cast<MPI_Datatype>(0x10);
}
MPI_Datatype* no_types() {
    return reinterpret_cast<MPI_Datatype*>(0x10);
}

// What `from` has for `to`, one block.
std::vector<int> block(int from, int to, int count) {
    std::vector<int> values(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
        values[static_cast<std::size_t>(i)] = from * 10000 + to * 1000 + i % 997;
    return values;
}
std::vector<int> blocks(int from, int ranks, int count) {
    std::vector<int> all;
    for (int to = 0; to < ranks; ++to) {
        const std::vector<int> one = block(from, to, count);
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}
// What `to` receives of `ranks` ranks from `first` on.
std::vector<int> received(int first, int ranks, int to, int count) {
    std::vector<int> all;
    for (int from = first; from < first + ranks; ++from) {
        const std::vector<int> one = block(from, to, count);
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

class Buffer {
  public:
    Buffer(gpu::Kind kind, const std::vector<int>& values) : memory_(kind, values.size() * sizeof(int)) {
        std::vector<std::byte> bytes(memory_.size());
        std::memcpy(bytes.data(), values.data(), bytes.size());
        memory_.write(bytes);
    }
    Buffer(gpu::Kind kind, int blocks, int count)
        : Buffer(kind,
                 std::vector<int>(static_cast<std::size_t>(blocks) * static_cast<std::size_t>(count), kUntouched)) {}

    void* at() const { return memory_.address(); }
    void expect(const std::vector<int>& wanted) const {
        const std::vector<std::byte> bytes = memory_.read();
        std::vector<int> found(bytes.size() / sizeof(int));
        std::memcpy(found.data(), bytes.data(), bytes.size());
        if (found == wanted)
            return;
        ++failures;
        std::fprintf(stderr, "rank %d: %s: wrong data\n", world_rank, now.c_str());
    }

  private:
    gpu::Memory memory_;
};

struct Vector {
    Vector(int ranks, int count) : counts(static_cast<std::size_t>(ranks), count), displs(counts.size()) {
        std::exclusive_scan(counts.begin(), counts.end(), displs.begin(), 0);
    }
    std::vector<int> counts, displs;
};

// What one case passes: the memory, the elements of a block, the form of the calls.
struct Case {
    gpu::Kind kind;
    int count;
    Form form;

    void say(const char* call, const char* where) const {
        now = std::string(call) + " " + where + ", " + kForms[static_cast<int>(form)] + ", " + gpu::name(kind) + ", " +
              std::to_string(count);
    }
};

// Collectives with a root in one group: its arguments elsewhere, and those beside its MPI_IN_PLACE.
void rooted(const Case& all, MPI_Comm comm, int rank, int size, int root, bool in_place) {
    const auto& [kind, count, form] = all;
    const char* where = in_place ? "with the root in place" : "at other ranks than the root";
    const Vector vector(size, count);
    const bool is_root = rank == root;
    {
        const Buffer sends(kind, block(rank, root, count));
        const Buffer gathered(kind, in_place ? received(0, size, root, count)
                                             : std::vector<int>(static_cast<std::size_t>(size * count), kUntouched));
        void* const sent = is_root && in_place ? MPI_IN_PLACE : sends.at();
        const int sendcount = is_root && in_place ? kInvalid : count;
        const MPI_Datatype sendtype = is_root && in_place ? no_type() : MPI_INT;
        const MPI_Datatype type = is_root ? MPI_INT : no_type();
        void* const into = is_root ? gathered.at() : no_address();
        all.say("MPI_Gather", where);
        CALL(form, Gather, gather, sent, sendcount, sendtype, into, is_root ? count : kInvalid, type, root, comm);
        if (is_root)
            gathered.expect(received(0, size, root, count));
        all.say("MPI_Gatherv", where);
        CALL(form, Gatherv, gatherv, sent, sendcount, sendtype, into, is_root ? vector.counts.data() : no_numbers(),
             is_root ? vector.displs.data() : no_numbers(), type, root, comm);
        if (is_root)
            gathered.expect(received(0, size, root, count));
    }
    {
        const Buffer all_blocks(kind, blocks(rank, size, count));
        const Buffer receives(kind, 1, count);
        void* const from = is_root ? all_blocks.at() : no_address();
        const MPI_Datatype type = is_root ? MPI_INT : no_type();
        void* const into = is_root && in_place ? MPI_IN_PLACE : receives.at();
        const int recvcount = is_root && in_place ? kInvalid : count;
        const MPI_Datatype recvtype = is_root && in_place ? no_type() : MPI_INT;
        all.say("MPI_Scatter", where);
        CALL(form, Scatter, scatter, from, is_root ? count : kInvalid, type, into, recvcount, recvtype, root, comm);
        if (into != MPI_IN_PLACE)
            receives.expect(block(root, rank, count));
        all.say("MPI_Scatterv", where);
        CALL(form, Scatterv, scatterv, from, is_root ? vector.counts.data() : no_numbers(),
             is_root ? vector.displs.data() : no_numbers(), type, into, recvcount, recvtype, root, comm);
        if (into != MPI_IN_PLACE)
            receives.expect(block(root, rank, count));
    }
    const Buffer sends(kind, block(0, rank, count)), sum(kind, 1, count);
    all.say("MPI_Reduce", where);
    CALL(form, Reduce, reduce, sends.at(), is_root ? sum.at() : no_address(), count, MPI_INT, MPI_SUM, root, comm);
    std::vector<int> wanted = block(0, 0, count);
    for (int& value : wanted)
        value = value * size + 1000 * (size * (size - 1) / 2);
    if (is_root)
        sum.expect(wanted);
}

// Collectives without a root: the send arguments beside MPI_IN_PLACE.
void in_place(const Case& all, MPI_Comm comm, int rank, int size) {
    const auto& [kind, count, form] = all;
    const Vector vector(size, count);
    std::vector<int> own(static_cast<std::size_t>(size * count), kUntouched);
    const std::vector<int> mine = block(rank, 0, count);
    std::copy(mine.begin(), mine.end(), own.begin() + rank * count);
    std::vector<int> gathered;
    for (int from = 0; from < size; ++from) {
        const std::vector<int> one = block(from, 0, count);
        gathered.insert(gathered.end(), one.begin(), one.end());
    }
    // Open MPI 4.1's non-blocking forms read the type for all that (coll/libnbc).
    const MPI_Datatype ignored = form == Form::kBlocking ? no_type() : MPI_INT;
    const std::vector<MPI_Datatype> types(static_cast<std::size_t>(size), MPI_INT);
    std::vector<int> bytes = vector.displs;
    for (int& displacement : bytes)
        displacement *= static_cast<int>(sizeof(int));
    const std::vector<int> before = blocks(rank, size, count), after = received(0, size, rank, count);
    // A persistent request is started twice: the second start sends the blocks back.
    const std::vector<int>& exchanged = form == Form::kPersistent ? before : after;
    const char* where = "in place";
    {
        const Buffer data(kind, own);
        all.say("MPI_Allgather", where);
        CALL(form, Allgather, allgather, MPI_IN_PLACE, kInvalid, ignored, data.at(), count, MPI_INT, comm);
        data.expect(gathered);
    }
    {
        const Buffer data(kind, own);
        all.say("MPI_Allgatherv", where);
        CALL(form, Allgatherv, allgatherv, MPI_IN_PLACE, kInvalid, ignored, data.at(), vector.counts.data(),
             vector.displs.data(), MPI_INT, comm);
        data.expect(gathered);
    }
    {
        const Buffer data(kind, before);
        all.say("MPI_Alltoall", where);
        CALL(form, Alltoall, alltoall, MPI_IN_PLACE, kInvalid, ignored, data.at(), count, MPI_INT, comm);
        data.expect(exchanged);
    }
    {
        const Buffer data(kind, before);
        all.say("MPI_Alltoallv", where);
        CALL(form, Alltoallv, alltoallv, MPI_IN_PLACE, no_numbers(), no_numbers(), ignored, data.at(),
             vector.counts.data(), vector.displs.data(), MPI_INT, comm);
        data.expect(exchanged);
    }
    const Buffer data(kind, before);
    all.say("MPI_Alltoallw", where);
    CALL(form, Alltoallw, alltoallw, MPI_IN_PLACE, no_numbers(), no_numbers(), no_types(), data.at(),
         vector.counts.data(), bytes.data(), types.data(), comm);
    data.expect(exchanged);
}

// Collectives with a root between groups: its group's other ranks, and the halves of the arguments that each side has
// no use for.
void between_groups(const Case& all, MPI_Comm inter, int rank, int remote, bool in_root_group, int root) {
    const auto& [kind, count, form] = all;
    const char* where = "between groups";
    const bool is_root = in_root_group && rank == root;
    const int named = is_root ? MPI_ROOT : in_root_group ? MPI_PROC_NULL : root;
    const Vector vector(remote, count);
    const MPI_Datatype roots = is_root ? MPI_INT : no_type(), others = in_root_group ? no_type() : MPI_INT;
    const int roots_count = is_root ? count : kInvalid, others_count = in_root_group ? kInvalid : count;
    const int* const counts = is_root ? vector.counts.data() : no_numbers();
    const int* const displs = is_root ? vector.displs.data() : no_numbers();
    {
        const Buffer sends(kind, block(rank, root, count)), gathered(kind, remote, count);
        void* const sent = in_root_group ? no_address() : sends.at();
        void* const into = is_root ? gathered.at() : no_address();
        all.say("MPI_Gather", where);
        CALL(form, Gather, gather, sent, others_count, others, into, roots_count, roots, named, inter);
        if (is_root)
            gathered.expect(received(0, remote, root, count));
        all.say("MPI_Gatherv", where);
        CALL(form, Gatherv, gatherv, sent, others_count, others, into, counts, displs, roots, named, inter);
        if (is_root)
            gathered.expect(received(0, remote, root, count));
    }
    const Buffer all_blocks(kind, blocks(root, remote, count)), receives(kind, 1, count);
    void* const from = is_root ? all_blocks.at() : no_address();
    void* const into = in_root_group ? no_address() : receives.at();
    all.say("MPI_Scatter", where);
    CALL(form, Scatter, scatter, from, roots_count, roots, into, others_count, others, named, inter);
    if (!in_root_group)
        receives.expect(block(root, rank, count));
    all.say("MPI_Scatterv", where);
    CALL(form, Scatterv, scatterv, from, counts, displs, roots, into, others_count, others, named, inter);
    if (!in_root_group)
        receives.expect(block(root, rank, count));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const bool host_alone = argc > 1 && std::string_view(argv[1]) == "--host";
    std::vector<gpu::Kind> kinds{gpu::Kind::kHost};
    if (!host_alone && gpu::Driver::get().devices > 0) {
        gpu::Driver::get().use(world_rank % gpu::Driver::get().devices);
        kinds = {gpu::Kind::kHost, gpu::Kind::kDevice, gpu::Kind::kManaged};
    }
    MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
    const bool second = world_rank >= size / 2;
    int rank_in_half = 0, remote = 0;
    MPI_Comm_split(MPI_COMM_WORLD, second ? 1 : 0, world_rank, &half);
    MPI_Comm_rank(half, &rank_in_half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, second ? 0 : size / 2, 1, &inter);
    MPI_Comm_remote_size(inter, &remote);
    for (const gpu::Kind kind : kinds)
        for (const int count : {3, 20000})
            for (const Form form : {Form::kBlocking, Form::kNonblocking, Form::kPersistent}) {
                const Case all{kind, count, form};
                for (int root = 0; root < size; ++root)
                    for (const bool with_in_place : {false, true})
                        rooted(all, MPI_COMM_WORLD, world_rank, size, root, with_in_place);
                in_place(all, MPI_COMM_WORLD, world_rank, size);
                between_groups(all, inter, rank_in_half, remote, second, 0);
                between_groups(all, inter, rank_in_half, remote, !second, 0);
            }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
