// Windows over device memory that all ranks map: one copy of the window, in MPI's unified model, which every call
// reads and writes at once. Expected by arithmetic. Where a rank cannot map the others' memory, none does, and the
// separate model holds: argument `separate`. With `hidden`, CUDA_VISIBLE_DEVICES hides from each rank the others' GPUs.
// launch: -n 2 --gpus 2
// launch: -n 4 --gpus 2 -x VGPU_JITTER=5
// launch: -n 3 --gpus 1
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL=0
// launch: -n 4 --gpus 4 -- hidden
// launch: -n 1 --gpus 1
// launch: -n 2 --gpus 2 -x SWITCHYARD_SYNC=device
// launch: -n 3 --gpus 3 -x VGPU_FAULTS=cuIpcOpenMemHandle_v2[1]@1=CUDA_ERROR_PEER_ACCESS_UNSUPPORTED -- separate
// launch: -n 2 --gpus 2 -x VGPU_FAULTS=cuIpcGetMemHandle[0]@1=CUDA_ERROR_NOT_SUPPORTED -- separate
// launch: -n 2 --gpus 2 -x SWITCHYARD_PEER_POOL=0 -- separate
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../gpu.hpp"
#include "../pml.hpp"
#include "known_window.hpp"

namespace {

using namespace known_window;

bool separate = false;
int next = 0;

int* attribute(MPI_Win win, int key) {
    int* value = nullptr;
    int flag = 0;
    MPI_Win_get_attr(win, key, static_cast<void*>(&value), &flag);
    expect(flag != 0, "an attribute is missing");
    return value;
}

void attributes() {
    const Window window;
    expect(static_cast<void*>(attribute(window.win, MPI_WIN_BASE)) == window.base(), "MPI_WIN_BASE");
    MPI_Aint bytes = 0;
    std::memcpy(&bytes, attribute(window.win, MPI_WIN_SIZE), sizeof bytes);
    expect(bytes == window.bytes(), "MPI_WIN_SIZE");
    expect(*attribute(window.win, MPI_WIN_DISP_UNIT) == Window::unit(), "MPI_WIN_DISP_UNIT");
    expect(*attribute(window.win, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_CREATE, "MPI_WIN_CREATE_FLAVOR");
    if (!separate)
        expect(*attribute(window.win, MPI_WIN_MODEL) == MPI_WIN_UNIFIED, "MPI_WIN_MODEL is not unified");
    else if (!Window::empty_on(rank))
        expect(*attribute(window.win, MPI_WIN_MODEL) == MPI_WIN_SEPARATE, "MPI_WIN_MODEL is not separate");
}

// In the unified model the owner sees a put when the origin has flushed it and said so.
void visible_without_a_call() {
    const Window window;
    MPI_Win_lock_all(0, window.win);
    const int value = 4711 + rank;
    if (!Window::empty_on(next))
        MPI_Put(&value, 1, MPI_INT, next, Window::disp(next, 17), 1, MPI_INT, window.win);
    MPI_Win_flush_all(window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (separate)
        MPI_Win_sync(window.win);
    if (!Window::empty_on(rank))
        expect(window.at(17) == 4711 + (rank + size - 1) % size, "a put that the origin has flushed is not there");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window.win);
    expect(Window::empty_on(rank) || window.untouched_around(), "memory around the window");
}

// All ranks count in rank 0's window.
void atomics() {
    const Window window;
    constexpr int kTimes = 40;
    MPI_Win_fence(0, window.win);
    std::vector<int> seen(kTimes);
    const int one = 1;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window.win);
    for (int i = 0; i < kTimes; ++i)
        MPI_Accumulate(&one, 1, MPI_INT, 0, Window::disp(0, 9), 1, MPI_INT, MPI_SUM, window.win);
    MPI_Win_fence(0, window.win);
    if (rank == 0)
        expect(window.at(9) == initial(0, 9) + kTimes * size, "sums of all ranks");
    MPI_Win_lock_all(0, window.win);
    for (int& value : seen) {
        MPI_Fetch_and_op(&one, &value, MPI_INT, 0, Window::disp(0, 5), MPI_SUM, window.win);
        MPI_Win_flush(0, window.win);
    }
    for (int i = 0; i < kTimes; ++i) {  // an increment by compare and swap
        int now = 0, found = 0;
        MPI_Fetch_and_op(nullptr, &now, MPI_INT, 0, Window::disp(0, 6), MPI_NO_OP, window.win);
        MPI_Win_flush(0, window.win);
        for (;; now = found) {
            const int changed = now + 1;
            MPI_Compare_and_swap(&changed, &now, &found, MPI_INT, 0, Window::disp(0, 6), window.win);
            MPI_Win_flush(0, window.win);
            if (found == now)
                break;
        }
    }
    MPI_Win_unlock_all(window.win);
    std::vector<int> all(static_cast<std::size_t>(size * kTimes));
    MPI_Allgather(seen.data(), kTimes, MPI_INT, all.data(), kTimes, MPI_INT, MPI_COMM_WORLD);
    std::vector<bool> had(all.size());
    for (const int value : all)
        if (value - initial(0, 5) >= 0 && value - initial(0, 5) < static_cast<int>(had.size()))
            had[static_cast<std::size_t>(value - initial(0, 5))] = true;
    for (const bool each : had)
        expect(each, "a value that no MPI_Fetch_and_op had");
    MPI_Win_fence(0, window.win);
    if (rank == 0) {
        expect(window.at(5) == initial(0, 5) + kTimes * size, "MPI_Fetch_and_op");
        expect(window.at(6) == initial(0, 6) + kTimes * size, "MPI_Compare_and_swap");
    }
}

// Sums and products of whole windows, from device memory to device memory, and what was there before.
void large_accumulates() {
    const Window window;
    std::vector<int> ones(kInts, 1);
    std::vector<std::byte> bytes(kInts * kInt);
    std::memcpy(bytes.data(), ones.data(), bytes.size());
    const gpu::Memory origin(gpu::Kind::kDevice, bytes);
    gpu::Memory before(gpu::Kind::kDevice, kInts * kInt);
    MPI_Win_fence(0, window.win);
    MPI_Accumulate(origin.address(), kInts, MPI_INT, 0, 0, kInts, MPI_INT, MPI_SUM, window.win);
    MPI_Win_fence(0, window.win);
    MPI_Get_accumulate(origin.address(), kInts, MPI_INT, before.address(), kInts, MPI_INT, 0, 0, kInts, MPI_INT,
                       MPI_SUM, window.win);
    MPI_Win_fence(0, window.win);
    for (const int i : {0, 1, kInts - 1}) {
        int value = 0;
        gpu::Driver::get().copy(&value, before.at(static_cast<std::size_t>(i) * kInt), kInt);
        expect(value >= initial(0, i) + size && value < initial(0, i) + 2 * size, "what MPI_Get_accumulate found");
        if (rank == 0)
            expect(window.at(i) == initial(0, i) + 2 * size, "sums of a whole window");
    }
    MPI_Win_fence(0, window.win);
    if (rank == size - 1)
        MPI_Accumulate(origin.address(), kInts, MPI_INT, 0, 0, kInts, MPI_INT, MPI_REPLACE, window.win);
    MPI_Win_fence(0, window.win);
    if (rank == 0)
        expect(window.at(0) == 1 && window.at(kInts - 1) == 1 && window.untouched_around(), "MPI_REPLACE");
}

// A type with a gap between its two parts, and derived ones of it.
void pairs() {
    struct Pair {
        double value;
        int index;
    };
    const Window window;
    MPI_Datatype every_other = MPI_DATATYPE_NULL;
    MPI_Type_vector(4, 1, 2, MPI_DOUBLE_INT, &every_other);
    MPI_Type_commit(&every_other);
    Pair least[4] = {};
    for (int i = 0; i < 4; ++i)
        least[i] = {-1.0 - (rank + i) % size, rank};
    const Pair none[8] = {};
    MPI_Win_fence(0, window.win);
    if (rank == 0)
        MPI_Put(none, 8, MPI_DOUBLE_INT, 0, Window::disp(0, 0), 8, MPI_DOUBLE_INT, window.win);
    MPI_Win_fence(0, window.win);
    MPI_Accumulate(least, 4, MPI_DOUBLE_INT, 0, Window::disp(0, 0), 1, every_other, MPI_MINLOC, window.win);
    MPI_Win_fence(0, window.win);
    Pair found[4] = {};
    MPI_Get(found, 4, MPI_DOUBLE_INT, 0, Window::disp(0, 0), 1, every_other, window.win);
    MPI_Win_fence(0, window.win);
    for (int i = 0; i < 4; ++i) {
        const int of = (size - 1 - i % size + size) % size;  // whose (rank + i) % size is the largest
        expect(found[i].value == -static_cast<double>(size) && found[i].index == of, "MPI_MINLOC of pairs");
    }
    MPI_Type_free(&every_other);
}

// Every third int of device memory to every second one of the target, by a request, in an epoch of groups.
void groups() {
    const Window window;
    constexpr int kCount = 1000;
    MPI_Datatype third = MPI_DATATYPE_NULL, second = MPI_DATATYPE_NULL;
    MPI_Type_vector(kCount, 1, 3, MPI_INT, &third);
    MPI_Type_vector(kCount, 1, 2, MPI_INT, &second);
    MPI_Type_commit(&third);
    MPI_Type_commit(&second);
    std::vector<std::byte> content(3 * kCount * kInt);
    for (int i = 0; i < 3 * kCount; ++i) {
        const int value = rank * 7000 + i;
        std::memcpy(&content[static_cast<std::size_t>(i) * kInt], &value, kInt);
    }
    const gpu::Memory origin(gpu::Kind::kDevice, content);
    MPI_Group all = MPI_GROUP_NULL, from = MPI_GROUP_NULL, to = MPI_GROUP_NULL;
    const int before = (rank + size - 1) % size;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &before, &from);
    MPI_Group_incl(all, 1, &next, &to);
    for (int time = 0; time < 20; ++time) {
        MPI_Win_post(from, 0, window.win);
        MPI_Win_start(to, 0, window.win);
        if (!Window::empty_on(next))
            MPI_Put(origin.address(), 1, third, next, Window::disp(next, time), 1, second, window.win);
        MPI_Win_complete(window.win);
        MPI_Win_wait(window.win);
        bool right = true;
        for (int i = 0; i < kCount && !Window::empty_on(rank); ++i)
            right = right && window.at(2 * i + time) == before * 7000 + 3 * i;
        expect(right, "what was put in an epoch of groups");
    }
    for (MPI_Group* group : {&all, &from, &to})
        MPI_Group_free(group);
    MPI_Type_free(&third);
    MPI_Type_free(&second);
    expect(Window::empty_on(rank) || window.untouched_around(), "memory around the window");
}

void requests() {
    const Window window;
    const Window second;
    std::vector<int> got(100), more(100), was(100);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, second.win);
    MPI_Request request[2];
    MPI_Rget(got.data(), 100, MPI_INT, 0, Window::disp(0, 50), 100, MPI_INT, second.win, &request[0]);
    for (int i = 0; i < 100; ++i)
        more[static_cast<std::size_t>(i)] = i;
    const int slot = 200 + 100 * rank;
    MPI_Rget_accumulate(more.data(), 100, MPI_INT, was.data(), 100, MPI_INT, 0, Window::disp(0, slot), 100, MPI_INT,
                        MPI_SUM, second.win, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    bool right = true;
    for (int i = 0; i < 100; ++i)
        right = right && got[static_cast<std::size_t>(i)] == initial(0, 50 + i) &&
                was[static_cast<std::size_t>(i)] == initial(0, slot + i);
    expect(right, "what MPI_Rget and MPI_Rget_accumulate bring");
    MPI_Win_unlock(0, second.win);
    MPI_Win_fence(0, second.win);
    if (rank == 0)
        for (int r = 0; r < size; ++r)
            expect(second.at(200 + 100 * r + 99) == initial(0, 200 + 100 * r + 99) + 99, "MPI_Rget_accumulate");
    MPI_Win_fence(0, second.win);
}

// A window ends beside collectives that are under way on the same GPUs, and start in another order on each rank.
void freed_beside_collectives() {
    constexpr int kCount = 1 << 18, kComms = 3;
    MPI_Comm comms[kComms];
    std::vector<gpu::Memory> data;
    std::vector<std::byte> ones(kCount * kInt);
    for (int i = 0; i < kCount; ++i)
        std::memcpy(&ones[static_cast<std::size_t>(i) * kInt], &rank, kInt);
    for (MPI_Comm& comm : comms) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        data.emplace_back(gpu::Kind::kDevice, ones);
    }
    for (int time = 0; time < 5; ++time) {
        MPI_Request requests[kComms];
        {
            const Window window;
            for (int i = 0; i < kComms; ++i) {
                const int which = (i + rank) % kComms;
                MPI_Ibcast(data[static_cast<std::size_t>(which)].address(), kCount, MPI_INT, which % size, comms[which],
                           &requests[which]);
            }
        }
        MPI_Waitall(kComms, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < kComms; ++i) {
        int value = -1;
        gpu::Driver::get().copy(&value, data[static_cast<std::size_t>(i)].at((kCount - 1) * kInt), kInt);
        expect(value == i % size, "a broadcast beside the end of a window");
        MPI_Comm_free(&comms[i]);
    }
}

constexpr unsigned kNonBlocking = 1;  // of a CUDA stream
std::atomic<bool> opened{false};
void wait_until_opened(void*) {
    while (!opened)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// With SWITCHYARD_SYNC=device, what the program has queued for its window is there for others after MPI_Win_create, and
// after each call that ends what the owner may store.
void queued_stores() {
    gpu::Driver& driver = gpu::Driver::get();
    void* stream = nullptr;
    gpu::Driver::check("cuStreamCreate", driver.call<int(void**, unsigned)>("cuStreamCreate")(&stream, kNonBlocking));
    gpu::Memory memory(gpu::Kind::kDevice, kInts * kInt);
    unsigned char value = 0;
    const auto store_later = [&] {
        // One rank's alone is late, so that no other finds it there for having waited for its own.
        if (rank == 0)
            gpu::Driver::check(
                "cuLaunchHostFunc",
                driver.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(
                    stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }, nullptr));
        gpu::Driver::check("cuMemsetD8Async", driver.call<int(void*, unsigned char, std::size_t, void*)>(
                                                  "cuMemsetD8Async")(memory.address(), ++value, kInts * kInt, stream));
    };
    MPI_Win win = MPI_WIN_NULL;
    const auto others = [&](const char* after) {
        int found = 0;
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        MPI_Get(&found, 1, MPI_INT, next, kInts - 1, 1, MPI_INT, win);
        MPI_Win_unlock(next, win);
        expect(found == 0x01010101 * value, std::string("what the owner has queued before ") + after);
        MPI_Barrier(MPI_COMM_WORLD);
    };
    store_later();
    MPI_Win_create(memory.address(), kInts * kInt, kInt, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    others("MPI_Win_create");
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    store_later();
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    others("MPI_Win_fence");
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    store_later();
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    others("MPI_Win_unlock");
    MPI_Win_lock_all(0, win);
    store_later();
    MPI_Win_sync(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    others("MPI_Win_sync");
    MPI_Win_free(&win);
    gpu::Driver::check("cuStreamDestroy", driver.call<int(void*)>("cuStreamDestroy_v2")(stream));
}

// A window ends beside what the program has queued and ends later, too: unmapping waits for all of that.
void freed_beside_the_programs_work() {
    gpu::Driver& driver = gpu::Driver::get();
    Window window;
    void* stream = nullptr;
    gpu::Driver::check("cuStreamCreate", driver.call<int(void**, unsigned)>("cuStreamCreate")(&stream, kNonBlocking));
    opened = false;
    gpu::Driver::check("cuLaunchHostFunc", driver.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(
                                               stream, wait_until_opened, nullptr));
    MPI_Win_free(&window.win);
    opened = true;
    gpu::Driver::check("cuStreamSynchronize", driver.call<int(void*)>("cuStreamSynchronize")(stream));
    gpu::Driver::check("cuStreamDestroy", driver.call<int(void*)>("cuStreamDestroy_v2")(stream));
    MPI_Barrier(MPI_COMM_WORLD);
}

int class_of(int code) {
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    return found;
}

// What reaches beyond a window is refused, and so are invalid arguments; nothing is written.
void refused() {
    const Window window;
    const int value = -1;
    MPI_Win_lock_all(0, window.win);
    if (!separate) {
        expect(class_of(MPI_Put(&value, 1, MPI_INT, 0, Window::disp(0, kInts), 1, MPI_INT, window.win)) ==
                   MPI_ERR_RMA_RANGE,
               "a put behind the window");
        expect(class_of(MPI_Put(&value, 1, MPI_INT, 0, Window::disp(0, -1), 1, MPI_INT, window.win)) != MPI_SUCCESS,
               "a put before the window");
        expect(class_of(MPI_Accumulate(&value, 1, MPI_INT, 0, PTRDIFF_MAX / 2, 1, MPI_INT, MPI_SUM, window.win)) ==
                   MPI_ERR_RMA_RANGE,
               "a displacement that no window has");
        if (Window::empty_on(size - 1))
            expect(class_of(MPI_Put(&value, 1, MPI_INT, size - 1, 0, 1, MPI_INT, window.win)) == MPI_ERR_RMA_RANGE,
                   "a put to a rank without memory");
    }
    expect(class_of(MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, window.win)) == MPI_ERR_RANK, "the rank");
    expect(class_of(MPI_Put(&value, -1, MPI_INT, 0, 0, 1, MPI_INT, window.win)) == MPI_ERR_COUNT, "the count");
    expect(class_of(MPI_Put(&value, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, window.win)) == MPI_ERR_TYPE, "the type");
    expect(MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window.win) == MPI_SUCCESS, "MPI_PROC_NULL");
    expect(MPI_Put(&value, 0, MPI_INT, 0, 0, 0, MPI_INT, window.win) == MPI_SUCCESS, "no elements");
    MPI_Win_unlock_all(window.win);
    MPI_Win none = MPI_WIN_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect(MPI_Win_create(window.base(), window.bytes(), 0, MPI_INFO_NULL, MPI_COMM_WORLD, &none) != MPI_SUCCESS,
           "a displacement unit of 0");
    expect(MPI_Win_create(window.base(), -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &none) != MPI_SUCCESS, "a size of -1");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (!Window::empty_on(rank))
        expect(window.at(0) == initial(rank, 0) && window.at(kInts - 1) == initial(rank, kInts - 1) &&
                   window.untouched_around(),
               "something was written");
    if (!separate) {
        MPI_Aint bytes = 0;
        int unit = 0;
        void* base = nullptr;
        expect(class_of(MPI_Win_shared_query(window.win, rank, &bytes, &unit, &base)) == MPI_ERR_RMA_FLAVOR,
               "MPI_Win_shared_query of a window of MPI_Win_create");
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (OMPI_MAJOR_VERSION < 5)  // "rdma" needs process_vm_readv for MPI_Win_create, which containers forbid
        setenv("OMPI_MCA_osc", "^rdma,ucx", 1);
    if (argc > 1 && std::string(argv[1]) == "hidden")
        setenv("CUDA_VISIBLE_DEVICES", std::getenv("OMPI_COMM_WORLD_RANK"), 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    separate = argc > 1 && std::string(argv[1]) == "separate";
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    attributes();
    if (argc > 1 && std::getenv("VGPU_FAULTS") != nullptr)
        separate = false;  // the fault was the first window's alone
    visible_without_a_call();
    // Over UCX, "pt2pt" does not return from flushes after fetching accumulates (docs/debugging.md).
    const bool fetches = !separate || OMPI_MAJOR_VERSION >= 5 || !mpi_test::over("ucx");
    if (fetches)
        atomics();
    if (fetches)
        large_accumulates();
    pairs();
    groups();
    if (fetches)
        requests();
    if (const char* sync = std::getenv("SWITCHYARD_SYNC"); sync != nullptr && std::string(sync) == "device")
        queued_stores();
    freed_beside_collectives();
    freed_beside_the_programs_work();
    refused();
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
