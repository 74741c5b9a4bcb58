// Dynamic windows with device memory (MPI 4.0 section 12.2.4): what MPI says of them, attaching, detaching and
// attaching again while others hold a lock, and target datatypes of absolute addresses over memory of several kinds.
// The reference is the standard's text.
// launch: -n 2 --gpus 2
// launch: -n 3 --gpus 2 -x VGPU_JITTER=5
// launch: -n 2 --gpus 1 -x SWITCHYARD_PINNED_POOL=0
// launch: -n 1 --gpus 1
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "../pml.hpp"

namespace {

constexpr int kInts = 64;
constexpr MPI_Aint kBytes = kInts * sizeof(int);
int rank = 0, size = 0, next = 0, previous = 0, failures = 0;
bool fetches = true;

void expect(bool right, const char* what) {
    if (right)
        return;
    std::fprintf(stderr, "rank %d of %d: %s\n", rank, size, what);
    ++failures;
}

void synchronize() {
    gpu::Driver::get().synchronize();
}

std::vector<std::byte> bytes_of(int first) {
    std::vector<std::byte> content(kBytes);
    for (int i = 0; i < kInts; ++i) {
        const int value = first + i;
        std::memcpy(&content[static_cast<std::size_t>(i) * sizeof(int)], &value, sizeof value);
    }
    return content;
}

int at(const gpu::Memory& memory, int i) {
    int value = 0;
    std::memcpy(&value, &memory.read()[static_cast<std::size_t>(i) * sizeof(int)], sizeof value);
    return value;
}

// What the next rank says of itself.
MPI_Aint from_next(MPI_Aint mine) {
    MPI_Aint theirs = 0;
    MPI_Sendrecv(&mine, 1, MPI_AINT, previous, 0, &theirs, 1, MPI_AINT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return theirs;
}

MPI_Aint address(const gpu::Memory& memory) {
    MPI_Aint found = 0;
    MPI_Get_address(memory.address(), &found);
    return found;
}

struct Window {
    Window() {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    }
    ~Window() {
        if (win != MPI_WIN_NULL)
            MPI_Win_free(&win);
    }
    void attach(const gpu::Memory& memory) {
        synchronize();
        expect(MPI_Win_attach(win, memory.address(), static_cast<MPI_Aint>(memory.size())) == MPI_SUCCESS,
               "MPI_Win_attach");
    }
    void detach(const gpu::Memory& memory) {
        expect(MPI_Win_detach(win, memory.address()) == MPI_SUCCESS, "MPI_Win_detach");
    }
    void put(int value, int target, MPI_Aint where) {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        MPI_Put(&value, 1, MPI_INT, target, where, 1, MPI_INT, win);
        MPI_Win_unlock(target, win);
    }
    MPI_Win win = MPI_WIN_NULL;
};

void The_model_is_separate_where_device_memory_has_been_attached() {
    Window window;
    const gpu::Memory memory(gpu::Kind::kDevice, bytes_of(0));
    window.attach(memory);
    int *model = nullptr, *flavor = nullptr, found = 0;
    void* base = nullptr;
    MPI_Win_get_attr(window.win, MPI_WIN_MODEL, static_cast<void*>(&model), &found);
    expect(found != 0 && *model == MPI_WIN_SEPARATE, "MPI_WIN_MODEL is not MPI_WIN_SEPARATE");
    MPI_Win_get_attr(window.win, MPI_WIN_CREATE_FLAVOR, static_cast<void*>(&flavor), &found);
    expect(found != 0 && *flavor == MPI_WIN_FLAVOR_DYNAMIC, "MPI_WIN_CREATE_FLAVOR");
    MPI_Win_get_attr(window.win, MPI_WIN_BASE, static_cast<void*>(&base), &found);
    expect(found != 0 && base == MPI_BOTTOM, "MPI_WIN_BASE is not MPI_BOTTOM");
    window.detach(memory);
}

// The origins hold their locks from before the first MPI_Win_attach to after the last MPI_Win_detach, so that nothing
// but the program's messages tells them of either.
void Memory_comes_and_goes_while_others_hold_a_lock() {
    constexpr gpu::Kind kKinds[] = {gpu::Kind::kDevice, gpu::Kind::kHost, gpu::Kind::kManaged, gpu::Kind::kDevice};
    Window window;
    MPI_Win_lock_all(0, window.win);
    for (int round = 0; round < 12; ++round) {
        const gpu::Memory memory(kKinds[(round + rank) % 4], bytes_of(1000 * rank + round));
        const gpu::Memory other(kKinds[round % 3], bytes_of(0));
        window.attach(memory);
        if (round % 2 == 0)
            window.attach(other);
        const MPI_Aint there = from_next(address(memory));
        int got = -1, fetched = -1;
        const int mine = 77 + round, one = 1;
        MPI_Get(&got, 1, MPI_INT, next, MPI_Aint_add(there, 8), 1, MPI_INT, window.win);
        MPI_Put(&mine, 1, MPI_INT, next, MPI_Aint_add(there, 12), 1, MPI_INT, window.win);
        if (fetches)
            MPI_Fetch_and_op(&one, &fetched, MPI_INT, next, MPI_Aint_add(there, kBytes - 4), MPI_SUM, window.win);
        else
            MPI_Accumulate(&one, 1, MPI_INT, next, MPI_Aint_add(there, kBytes - 4), 1, MPI_INT, MPI_SUM, window.win);
        MPI_Win_flush_all(window.win);
        expect(got == 1000 * next + round + 2, "MPI_Get");
        expect(!fetches || fetched == 1000 * next + round + kInts - 1, "MPI_Fetch_and_op");
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(window.win);
        expect(at(memory, 3) == mine && at(memory, kInts - 1) == 1000 * rank + round + kInts, "the memory");
        MPI_Barrier(MPI_COMM_WORLD);
        if (round % 2 == 0)
            window.detach(other);
        window.detach(memory);
    }
    MPI_Win_unlock_all(window.win);
}

void The_same_memory_is_attached_again_in_parts_and_as_a_whole() {
    Window window;
    const gpu::Memory memory(gpu::Kind::kDevice, bytes_of(100 * rank));
    const MPI_Aint there = from_next(address(memory));
    for (int parts = 1; parts <= 8; parts *= 2) {
        synchronize();
        for (int i = 0; i < parts; ++i)
            expect(MPI_Win_attach(window.win, memory.at(static_cast<std::size_t>(kBytes / parts * i)),
                                  kBytes / parts) == MPI_SUCCESS,
                   "MPI_Win_attach of a part");
        MPI_Win_fence(0, window.win);
        for (int i = 0; i < 8; ++i) {
            const int value = 5000 * rank + 10 * parts + i;
            MPI_Put(&value, 1, MPI_INT, next, MPI_Aint_add(there, kBytes / 8 * i), 1, MPI_INT, window.win);
        }
        MPI_Win_fence(0, window.win);
        for (int i = 0; i < 8; ++i)
            expect(at(memory, kInts / 8 * i) == 5000 * previous + 10 * parts + i, "a part");
        for (int i = 0; i < parts; ++i)
            expect(MPI_Win_detach(window.win, memory.at(static_cast<std::size_t>(kBytes / parts * i))) == MPI_SUCCESS,
                   "MPI_Win_detach of a part");
    }
}

void What_was_put_is_on_the_device_after_MPI_Win_detach_and_MPI_Win_free() {
    Window window;
    const gpu::Memory first(gpu::Kind::kDevice, bytes_of(0)), second(gpu::Kind::kDevice, bytes_of(0));
    window.attach(first);
    window.attach(second);
    window.put(6000 + rank, next, from_next(address(first)));
    window.put(7000 + rank, next, from_next(address(second)));
    MPI_Barrier(MPI_COMM_WORLD);
    window.detach(first);
    expect(at(first, 0) == 6000 + previous, "a put is not there after MPI_Win_detach");
    MPI_Win_free(&window.win);
    expect(at(second, 0) == 7000 + previous, "a put is not there after MPI_Win_free");
}

// Ints of three regions: the first and last ones on devices, in an order that is not that of their addresses.
struct Scattered {
    explicit Scattered(const std::vector<MPI_Aint>& regions) {
        const std::vector<MPI_Aint> places = {regions[2], MPI_Aint_add(regions[1], 16), MPI_Aint_add(regions[0], 4),
                                              MPI_Aint_add(regions[1], 32)};
        const int lengths[] = {3, 1, 2, 4};
        MPI_Type_create_hindexed(4, lengths, places.data(), MPI_INT, &type);
        MPI_Type_commit(&type);
    }
    ~Scattered() { MPI_Type_free(&type); }
    MPI_Datatype type = MPI_DATATYPE_NULL;
};

void A_target_datatype_has_absolute_addresses_in_several_regions() {
    Window window;
    const gpu::Memory memory[] = {gpu::Memory(gpu::Kind::kDevice, bytes_of(100 * rank)),
                                  gpu::Memory(gpu::Kind::kHost, bytes_of(1000 + 100 * rank)),
                                  gpu::Memory(gpu::Kind::kManaged, bytes_of(2000 + 100 * rank))};
    std::vector<MPI_Aint> there;
    for (const gpu::Memory& one : memory) {
        window.attach(one);
        there.push_back(from_next(address(one)));
    }
    const Scattered target(there);
    std::vector<int> got(10, -1);
    const std::vector<int> ones(10, 1);
    MPI_Win_fence(0, window.win);
    MPI_Get(got.data(), 10, MPI_INT, next, 0, 1, target.type, window.win);
    MPI_Win_fence(0, window.win);
    const int from = 100 * next;
    expect(got == std::vector<int>{2000 + from, 2001 + from, 2002 + from, 1004 + from, 1 + from, 2 + from, 1008 + from,
                                   1009 + from, 1010 + from, 1011 + from},
           "MPI_Get");
    MPI_Accumulate(ones.data(), 10, MPI_INT, next, 0, 1, target.type, MPI_SUM, window.win);
    MPI_Win_fence(0, window.win);
    expect(at(memory[2], 0) == 2001 + 100 * rank && at(memory[2], 2) == 2003 + 100 * rank &&
               at(memory[2], 3) == 2003 + 100 * rank && at(memory[1], 4) == 1005 + 100 * rank &&
               at(memory[0], 0) == 100 * rank && at(memory[0], 1) == 2 + 100 * rank &&
               at(memory[0], 2) == 3 + 100 * rank && at(memory[1], 11) == 1012 + 100 * rank,
           "MPI_Accumulate");
    for (const gpu::Memory& one : memory)
        window.detach(one);
}

void expect_error(int code, int wanted, const char* says) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    expect(found == wanted && std::strstr(text, says) != nullptr, text);
}

void Errors_are_the_windows_and_leave_it_as_it_was() {
    Window window;
    const gpu::Memory memory(gpu::Kind::kDevice, bytes_of(1));
    window.attach(memory);
    expect_error(MPI_Win_attach(window.win, memory.at(16), 16), MPI_ERR_RMA_ATTACH, "attached to the window already");
    const gpu::Memory never(gpu::Kind::kDevice, bytes_of(2)), managed(gpu::Kind::kManaged, bytes_of(2));
    for (const void* nothing : {never.at(0), managed.at(0), memory.at(16)})
        expect_error(MPI_Win_detach(window.win, nothing), MPI_ERR_BASE,
                     "none that is attached to the window begins there");
    window.put(9, next, from_next(address(memory)));
    MPI_Barrier(MPI_COMM_WORLD);
    window.detach(memory);
    expect(at(memory, 0) == 9, "a put after an error");
    expect_error(MPI_Win_detach(window.win, memory.address()), MPI_ERR_BASE, "MPI_Win_detach");
    // No memory is attached to a window that is not dynamic.
    MPI_Win fixed = MPI_WIN_NULL;
    void* base = nullptr;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, static_cast<void*>(&base), &fixed);
    MPI_Win_set_errhandler(fixed, MPI_ERRORS_RETURN);
    expect(MPI_Win_attach(fixed, memory.address(), kBytes) != MPI_SUCCESS, "memory is attached to any window");
    expect_error(MPI_Win_detach(fixed, memory.address()), MPI_ERR_BASE, "none that is attached");
    MPI_Win_free(&fixed);
}

void A_rank_attaches_1024_regions_of_device_memory_and_no_more() {
    constexpr std::size_t kMost = 1024, kEach = 8;
    Window window;
    const gpu::Memory memory(gpu::Kind::kDevice, std::vector<std::byte>((kMost + 1) * kEach));
    const MPI_Aint there = from_next(address(memory));
    const auto attach = [&](std::size_t i) { return MPI_Win_attach(window.win, memory.at(i * kEach), kEach); };
    synchronize();
    for (std::size_t i = 0; i < kMost; ++i)
        expect(attach(i) == MPI_SUCCESS, "MPI_Win_attach of one of 1024 regions");
    expect_error(attach(kMost), MPI_ERR_RMA_ATTACH, "1024 regions");
    MPI_Barrier(MPI_COMM_WORLD);
    window.put(300 + rank, next, MPI_Aint_add(there, kEach));
    window.put(400 + rank, next, MPI_Aint_add(there, (kMost - 1) * kEach));
    MPI_Barrier(MPI_COMM_WORLD);
    expect(MPI_Win_detach(window.win, memory.at(0)) == MPI_SUCCESS, "MPI_Win_detach of one of 1024 regions");
    expect(attach(kMost) == MPI_SUCCESS, "MPI_Win_attach where another region was");
    MPI_Barrier(MPI_COMM_WORLD);
    window.put(500 + rank, next, MPI_Aint_add(there, kMost * kEach));
    MPI_Win_free(&window.win);
    expect(at(memory, 2) == 300 + previous && at(memory, 2 * (kMost - 1)) == 400 + previous &&
               at(memory, 2 * kMost) == 500 + previous,
           "what was put into the first and the last regions");
}

}  // namespace

int main(int argc, char** argv) {
    if (OMPI_MAJOR_VERSION < 5)  // "rdma" needs process_vm_readv, which containers forbid
        setenv("OMPI_MCA_osc", "^rdma,ucx", 1);
    // Over UCX Open MPI 4.1.4's "pt2pt" does not complete MPI_Fetch_and_op (docs/debugging.md).
    fetches = OMPI_MAJOR_VERSION >= 5 || !mpi_test::over("ucx");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    The_model_is_separate_where_device_memory_has_been_attached();
    Memory_comes_and_goes_while_others_hold_a_lock();
    The_same_memory_is_attached_again_in_parts_and_as_a_whole();
    What_was_put_is_on_the_device_after_MPI_Win_detach_and_MPI_Win_free();
    if (OMPI_MAJOR_VERSION < 5)  // MPI_ERR_RMA_RANGE of Open MPI 5's own (docs/debugging.md)
        A_target_datatype_has_absolute_addresses_in_several_regions();
    Errors_are_the_windows_and_leave_it_as_it_was();
    if (OMPI_MAJOR_VERSION < 5)  // Open MPI 5 has "rdma" alone, which attaches 64 regions
        A_rank_attaches_1024_regions_of_device_memory_and_no_more();
    MPI_Finalize();
    return failures > 0 ? 1 : 0;
}
