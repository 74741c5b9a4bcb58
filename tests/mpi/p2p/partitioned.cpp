// Partitioned point-to-point (MPI 4.0 chapter 4) between memory of every kind, with other numbers of partitions on both
// sides, marked ready in any order and by several threads, asked for one by one or waited for together. Each large
// partition arrives while later ones are not ready. An MPI without it skips this. Compared with arithmetic.
// --nccl: large messages from device to device memory alone, until NCCL has a communicator for them and after that;
// partitioned_routes.test reads the report.
// clang-format off
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x VGPU_JITTER=5
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -x VGPU_JITTER=3
// launch: -n 2 --gpus 0
// test-timeout: 180
// clang-format on

#include <mpi.h>

#if OMPI_MAJOR_VERSION < 5
int main() {
    return 77;  // the test frame's "skipped"
}
#else

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../gpu.hpp"

namespace {

int failures = 0, rank = 0, rounds = 4;
bool gpus = false;

constexpr int kTag = 3;
constexpr int kLarge = 9001;  // elements of a partition that is a message of its own

// An element of so many doubles, with a gap of one behind them or none.
struct Element {
    int doubles;
    bool gap;

    int extent() const { return doubles + (gap ? 1 : 0); }
    // Where a double of the message lies.
    std::size_t place(std::size_t number) const {
        const auto each = static_cast<std::size_t>(doubles);
        return number / each * static_cast<std::size_t>(extent()) + number % each;
    }
    MPI_Datatype make() const {
        MPI_Datatype inner = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
        MPI_Type_contiguous(doubles, MPI_DOUBLE, &inner);
        MPI_Type_create_resized(inner, 0, static_cast<MPI_Aint>(static_cast<std::size_t>(extent()) * sizeof(double)),
                                &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&inner);
        return type;
    }
};

// One side: partitions of `count` elements.
struct Side {
    gpu::Kind kind;
    Element element;
    int partitions, count;

    std::size_t doubles() const {  // of the message
        return static_cast<std::size_t>(partitions) * static_cast<std::size_t>(count * element.doubles);
    }
    std::size_t room() const {  // in memory
        return static_cast<std::size_t>(partitions) * static_cast<std::size_t>(count * element.extent());
    }
    std::string words() const {
        return std::to_string(partitions) + " partitions of " + std::to_string(count) + " elements of " +
               std::to_string(element.doubles) + (element.gap ? " doubles and a gap in " : " doubles in ") +
               gpu::name(kind) + " memory";
    }
};

double value(std::size_t number, int round) {
    return static_cast<double>(number) + 0.25 * round;
}

std::vector<std::byte> as_bytes(const std::vector<double>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(double));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// What the program waits for within a start is waited for with MPI's progress, as MPI_Wait does.
void tell(int to, MPI_Comm comm) {
    MPI_Send(nullptr, 0, MPI_BYTE, to, 99, comm);
}
void hear(int from, MPI_Comm comm) {
    MPI_Recv(nullptr, 0, MPI_BYTE, from, 99, comm, MPI_STATUS_IGNORE);
}

// Marks all partitions ready, in another way in each round.
void mark_ready(int round, int partitions, bool talks, int to, MPI_Comm comm, MPI_Request request) {
    if (round % 4 == 0 || (round % 4 == 3 && (!gpus || (!talks && comm != MPI_COMM_WORLD)))) {
        MPI_Pready_range(0, partitions - 1, request);
    } else if (round % 4 == 1) {
        for (int partition = partitions - 1; partition >= 0; --partition)
            MPI_Pready(partition, request);
    } else if (round % 4 == 2) {
        std::vector<int> odd, even;
        for (int partition = 0; partition < partitions; ++partition)
            (partition % 2 != 0 ? odd : even).insert((partition % 2 != 0 ? odd : even).begin(), partition);
        MPI_Pready_list(static_cast<int>(odd.size()), odd.data(), request);
        MPI_Pready_list(static_cast<int>(even.size()), even.data(), request);
    } else if (talks) {  // the receiver has the first partition before the second one is ready
        for (int partition = 0; partition < partitions; ++partition) {
            MPI_Pready(partition, request);
            if (partition == 0)
                hear(to, comm);
        }
    } else {
        std::vector<std::thread> threads;
        for (int partition = 0; partition < partitions; ++partition)
            threads.emplace_back([partition, request] {
                if (gpus)
                    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
                MPI_Pready(partition, request);
            });
        for (std::thread& thread : threads)
            thread.join();
    }
}

void send(const Side& side, bool talks, int to, MPI_Comm comm) {
    gpu::Memory memory(side.kind, side.room() * sizeof(double));
    MPI_Datatype type = side.element.make();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Psend_init(memory.address(), side.partitions, side.count, type, to, kTag, comm, MPI_INFO_NULL, &request);
    MPI_Type_free(&type);
    for (int round = 0; round < rounds; ++round) {
        memory.write(std::vector<std::byte>(memory.size()));
        MPI_Start(&request);
        std::vector<double> values(side.room(), 7.5);
        for (std::size_t i = 0; i < side.doubles(); ++i)
            values[side.element.place(i)] = value(i, round);
        memory.write(as_bytes(values));  // the buffer is the program's until a partition is ready
        mark_ready(round, side.partitions, talks, to, comm, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        failures += request == MPI_REQUEST_NULL;
    }
    MPI_Request_free(&request);
}

bool right(const Side& side, const gpu::Memory& memory, std::size_t first, std::size_t last, int round) {
    const std::vector<std::byte> bytes = memory.read();
    std::vector<double> found(side.room());
    std::memcpy(found.data(), bytes.data(), bytes.size());
    std::vector<double> wanted(side.room(), -1);
    for (std::size_t i = 0; i < side.doubles(); ++i)
        wanted[side.element.place(i)] = value(i, round);
    const std::size_t extent = static_cast<std::size_t>(side.element.extent());
    for (std::size_t i = first * extent; i < last * extent; ++i)
        if (found[i] != wanted[i]) {
            std::fprintf(stderr, "round %d: double %zu in memory is %g, not %g\n", round, i, found[i], wanted[i]);
            return false;
        }
    return true;
}

void receive(const Side& side, bool talks, int from, MPI_Comm comm) {
    gpu::Memory memory(side.kind, side.room() * sizeof(double));
    MPI_Datatype type = side.element.make();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Precv_init(memory.address(), side.partitions, side.count, type, from, kTag, comm, MPI_INFO_NULL, &request);
    MPI_Type_free(&type);
    const auto count = static_cast<std::size_t>(side.count), partitions = static_cast<std::size_t>(side.partitions);
    for (int round = 0; round < rounds; ++round) {
        memory.write(as_bytes(std::vector<double>(side.room(), -1)));
        MPI_Start(&request);
        for (std::size_t partition = 0; round > 0 && partition < partitions; ++partition) {
            for (int there = 0; !there;)
                MPI_Parrived(request, static_cast<int>(partition), &there);
            failures += !right(side, memory, partition * count, (partition + 1) * count, round);
            if (partition == 0 && round % 4 == 3 && talks)
                tell(from, comm);
        }
        MPI_Status status;
        MPI_Wait(&request, &status);
        int bytes = 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        const int sent = static_cast<int>(side.doubles() * sizeof(double));
        if (status.MPI_SOURCE != from || status.MPI_TAG != kTag || bytes != sent) {
            ++failures;
            std::fprintf(stderr, "status: source %d, tag %d, %d bytes\n", status.MPI_SOURCE, status.MPI_TAG, bytes);
        }
        failures += !right(side, memory, 0, partitions * count, round);
    }
    MPI_Request_free(&request);
}

void run(const Side& sender, const Side& receiver, bool talks, MPI_Comm comm) {
    int place = 0;
    MPI_Comm_rank(comm, &place);
    const int before = failures;
    if (place == 0)
        send(sender, talks, 1, comm);
    else
        receive(receiver, talks, 0, comm);
    if (failures != before)
        std::fprintf(stderr, "rank %d: %s, received as %s\n", rank, sender.words().c_str(), receiver.words().c_str());
}

// As many as the sender has, half as many, or such that the sender's partitions end within the receiver's elements.
void run_all(gpu::Kind from, gpu::Kind to, int count) {
    constexpr Element kPair{2, false}, kPairAndGap{2, true}, kFourAndGap{4, true};
    const Side sends{from, kPair, 6, count}, sends_gaps{from, kPairAndGap, 6, count};
    const bool on_host = from == gpu::Kind::kHost && to == gpu::Kind::kHost;
    run(sends, {to, kPair, 3, 2 * count}, false, MPI_COMM_WORLD);
    if (!gpus)  // Open MPI 5.0.11 takes partitions of a type with gaps from wrong places, and others late
        return;
    const bool large = count >= kLarge;  // small partitions may go together
    run(sends, {to, kPair, 6, count}, large, MPI_COMM_WORLD);
    run(sends_gaps, {to, kPairAndGap, 3, 2 * count}, false, MPI_COMM_WORLD);
    run(sends_gaps, {to, kPairAndGap, 6, count}, large, MPI_COMM_WORLD);
    if (from == to || on_host) {
        run(sends, {to, kFourAndGap, 3, count}, false, MPI_COMM_WORLD);
        run(sends, {to, kFourAndGap, 1, 3 * count}, false, MPI_COMM_WORLD);
    }
}

// The communicator may go before its requests, and one may be told from another by it alone.
void several_communicators(gpu::Kind kind) {
    MPI_Comm reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    constexpr int kCount = 20000;
    const MPI_Comm comms[] = {MPI_COMM_WORLD, reversed};
    std::vector<gpu::Memory> memories;
    MPI_Request requests[4];
    for (int i = 0; i < 4; ++i) {  // two messages of one tag on each
        const double mark = rank == 0 ? 10 + i : -1;
        memories.emplace_back(kind, as_bytes(std::vector<double>(2 * kCount, mark)));
        const int peer = comms[i / 2] == reversed ? rank : 1 - rank;
        if (rank == 0)
            MPI_Psend_init(memories.back().address(), 2, kCount, MPI_DOUBLE, peer, kTag, comms[i / 2], MPI_INFO_NULL,
                           &requests[i]);
        else
            MPI_Precv_init(memories.back().address(), 1, 2 * kCount, MPI_DOUBLE, peer, kTag, comms[i / 2],
                           MPI_INFO_NULL, &requests[i]);
    }
    MPI_Comm_free(&reversed);
    for (int round = 0; round < 2; ++round) {
        for (int i = 3; i >= 0; --i)
            MPI_Start(&requests[i]);
        for (int i = 3; rank == 0 && i >= 0; --i)
            MPI_Pready_range(0, 1, requests[i]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (std::size_t i = 0; i < 4; ++i)
            if (memories[i].read() != as_bytes(std::vector<double>(2 * kCount, 10 + static_cast<double>(i)))) {
                ++failures;
                std::fprintf(stderr, "rank %d, %s: message %zu is another one\n", rank, gpu::name(kind), i);
            }
    }
    for (MPI_Request& request : requests)
        MPI_Request_free(&request);
}

// The sender frees request and communicator while the message is under way, which goes on.
void freed_early() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const gpu::Memory memory(gpu::Kind::kDevice, as_bytes(std::vector<double>(4 * kLarge, rank == 0 ? 5 : -1)));
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) {
        MPI_Psend_init(memory.address(), 2, 2 * kLarge, MPI_DOUBLE, 1, kTag, comm, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Pready_range(0, 1, request);
        MPI_Request_free(&request);
        MPI_Comm_free(&comm);
        tell(1, MPI_COMM_WORLD);
    } else {
        hear(0, MPI_COMM_WORLD);
        MPI_Precv_init(memory.address(), 2, 2 * kLarge, MPI_DOUBLE, 0, kTag, comm, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        MPI_Comm_free(&comm);
        if (memory.read() != as_bytes(std::vector<double>(4 * kLarge, 5))) {
            ++failures;
            std::fprintf(stderr, "a message whose request was freed early is another one\n");
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// Requests that are freed unstarted match each other, and leave the later ones of their tag alone.
void freed_unstarted() {
    gpu::Memory memory(gpu::Kind::kDevice, 4 * kLarge * sizeof(double));
    for (int round = 0; round < 20; ++round) {
        memory.write(as_bytes(std::vector<double>(4 * kLarge, rank == 0 ? round : -1)));
        MPI_Request requests[2];
        for (MPI_Request& request : requests) {
            if (rank == 0)
                MPI_Psend_init(memory.address(), 2, 2 * kLarge, MPI_DOUBLE, 1, kTag, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &request);
            else
                MPI_Precv_init(memory.address(), 2, 2 * kLarge, MPI_DOUBLE, 0, kTag, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &request);
            if (&request == requests)
                MPI_Request_free(&request);
        }
        MPI_Start(&requests[1]);
        if (rank == 0)
            MPI_Pready_range(0, 1, requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Request_free(&requests[1]);
        if (memory.read() != as_bytes(std::vector<double>(4 * kLarge, round))) {
            ++failures;
            std::fprintf(stderr, "rank %d: a message behind one that was freed unstarted is another one\n", rank);
        }
    }
}

int class_of(int code) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

void expect(bool good, const char* what) {
    failures += !good;
    if (!good)
        std::fprintf(stderr, "rank %d: %s\n", rank, what);
}

// A communicator without a private one.
void duplicated() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (const bool gap : {false, true})
        run({gpu::Kind::kDevice, {2, gap}, 6, 30000}, {gpu::Kind::kDevice, {2, gap}, 3, 60000}, false, comm);
    run({gpu::Kind::kHost, {2, false}, 6, 12}, {gpu::Kind::kDevice, {2, false}, 3, 24}, false, comm);
    MPI_Comm_free(&comm);
}

// A receiver of less than is sent gets an error, and the sender none; partitions that do not exist are errors.
void mistakes() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    constexpr int kCount = 30000;
    const gpu::Memory memory(gpu::Kind::kDevice, 2 * kCount * sizeof(double));
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0)
        MPI_Psend_init(memory.address(), 2, kCount, MPI_DOUBLE, 1, kTag, comm, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(memory.address(), 1, kCount, MPI_DOUBLE, 0, kTag, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    if (rank == 0) {
        expect(class_of(MPI_Pready(2, request)) == MPI_ERR_ARG, "MPI_Pready takes a partition that does not exist");
        MPI_Pready_range(0, 1, request);
        expect(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "the sender has an error");
    } else {
        int there = 0;
        expect(class_of(MPI_Parrived(request, 1, &there)) == MPI_ERR_ARG, "MPI_Parrived takes what does not exist");
        expect(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE, "too much is received");
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char* count = std::getenv("VGPU_COUNT");
    gpus = count == nullptr || std::atoi(count) > 0;
    if (gpus)
        gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    if (argc > 1 && std::string_view(argv[1]) == "--nccl") {
        constexpr Element kPair{2, false};
        rounds = 60;
        run({gpu::Kind::kDevice, kPair, 6, kLarge}, {gpu::Kind::kDevice, kPair, 3, 2 * kLarge}, false, MPI_COMM_WORLD);
    } else {
        for (const gpu::Kind from : gpu::kKinds)
            for (const gpu::Kind to : gpu::kKinds)
                for (const int elements : {13, kLarge})
                    if (gpus || (from == gpu::Kind::kHost && to == gpu::Kind::kHost))
                        run_all(from, to, elements);
        for (const gpu::Kind kind : {gpu::Kind::kHost, gpu::Kind::kDevice})
            if (gpus)
                several_communicators(kind);
        if (gpus) {
            duplicated();
            freed_early();
            freed_unstarted();
            mistakes();
        }
    }
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}

#endif
