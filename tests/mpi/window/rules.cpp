// What MPI says of windows (MPI 4.0 chapter 12) where host memory stands for the window's device memory, as it does
// where ranks cannot map each other's: its attributes, what becomes visible
// to whom at which call, and that nothing is lost of what an owner and others write side by side. The reference is the
// standard's text.
// launch: -n 2 --gpus 2 -x SWITCHYARD_PEER_POOL=0
// launch: -n 3 --gpus 2 -x SWITCHYARD_PEER_POOL=0 -x VGPU_JITTER=5
// launch: -n 2 --gpus 1 -x SWITCHYARD_PEER_POOL=0 -x SWITCHYARD_PINNED_POOL=0
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kInts = 4096;
constexpr std::size_t kBytes = kInts * sizeof(int);
int rank = 0, size = 0, failures = 0;

void expect(bool right, const char* what) {
    if (right)
        return;
    std::fprintf(stderr, "rank %d of %d: %s\n", rank, size, what);
    ++failures;
}

// A window over device memory, the ints of which are their own numbers first.
struct Window {
    explicit Window(gpu::Kind kind = gpu::Kind::kDevice) : memory(kind, kBytes) {
        std::vector<std::byte> content(kBytes);
        for (int i = 0; i < kInts; ++i)
            std::memcpy(&content[static_cast<std::size_t>(i) * sizeof(int)], &i, sizeof(int));
        memory.write(content);
        gpu::Driver::get().synchronize();
        MPI_Win_create(memory.address(), kBytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    ~Window() {
        if (win != MPI_WIN_NULL)
            MPI_Win_free(&win);
    }
    int at(int i) const {
        int value = 0;
        gpu::Driver::get().copy(&value, memory.at(static_cast<std::size_t>(i) * sizeof(int)), sizeof value);
        return value;
    }
    void set(int i, int value) {
        gpu::Driver::get().copy(memory.at(static_cast<std::size_t>(i) * sizeof(int)), &value, sizeof value);
        gpu::Driver::get().synchronize();
    }

    gpu::Memory memory;
    MPI_Win win = MPI_WIN_NULL;
};

void put(int value, int target, int at, MPI_Win win) {
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Put(&value, 1, MPI_INT, target, at, 1, MPI_INT, win);
    MPI_Win_unlock(target, win);
}

int get(int target, int at, MPI_Win win) {
    int value = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Get(&value, 1, MPI_INT, target, at, 1, MPI_INT, win);
    MPI_Win_unlock(target, win);
    return value;
}

void lock_and_unlock_own(MPI_Win win) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    MPI_Win_unlock(rank, win);
}

void Attributes_are_those_of_the_device_memory() {
    Window window;
    void* base = nullptr;
    int *model = nullptr, *unit = nullptr, *flavor = nullptr, found = 0;
    MPI_Aint* bytes = nullptr;
    MPI_Win_get_attr(window.win, MPI_WIN_BASE, static_cast<void*>(&base), &found);
    expect(found != 0 && base == window.memory.address(), "MPI_WIN_BASE is not the device address");
    MPI_Win_get_attr(window.win, MPI_WIN_MODEL, static_cast<void*>(&model), &found);
    expect(found != 0 && *model == MPI_WIN_SEPARATE, "MPI_WIN_MODEL is not MPI_WIN_SEPARATE");
    MPI_Win_get_attr(window.win, MPI_WIN_SIZE, static_cast<void*>(&bytes), &found);
    expect(found != 0 && *bytes == static_cast<MPI_Aint>(kBytes), "MPI_WIN_SIZE");
    MPI_Win_get_attr(window.win, MPI_WIN_DISP_UNIT, static_cast<void*>(&unit), &found);
    expect(found != 0 && *unit == sizeof(int), "MPI_WIN_DISP_UNIT");
    MPI_Win_get_attr(window.win, MPI_WIN_CREATE_FLAVOR, static_cast<void*>(&flavor), &found);
    expect(found != 0 && *flavor == MPI_WIN_FLAVOR_CREATE, "MPI_WIN_CREATE_FLAVOR");
}

void Others_see_what_the_owner_stored_before_MPI_Win_unlock_of_any_rank() {
    Window window;
    const int next = (rank + 1) % size;
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window.win);
    window.set(3, 1000 + rank);
    MPI_Win_unlock(next, window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(get(next, 3, window.win) == 1000 + next, "a store before MPI_Win_unlock is not seen");
    MPI_Barrier(MPI_COMM_WORLD);
}

void The_owner_sees_what_others_put_after_MPI_Win_lock_of_any_rank() {
    Window window;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    put(2000 + rank, next, 5, window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window.win);
    expect(window.at(5) == 2000 + previous, "a put is not seen after MPI_Win_lock");
    MPI_Win_unlock(next, window.win);
    MPI_Barrier(MPI_COMM_WORLD);
}

void Neither_side_writes_over_what_the_other_has_changed() {
    Window window;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int round = 0; round < 3; ++round) {
        // The owner has stored even ints, and others have put odd ones, before it next synchronises.
        for (int i = 0; i < 20; i += 2)
            window.set(i, 100 * round + i);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 1; i < 20; i += 2)
            put(5000 * rank + 100 * round + i, next, i, window.win);
        MPI_Barrier(MPI_COMM_WORLD);
        lock_and_unlock_own(window.win);
        for (int i = 0; i < 20; ++i)
            expect(window.at(i) == (i % 2 == 0 ? 0 : 5000 * previous) + 100 * round + i, "the owner's view is wrong");
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 20; ++i)
            expect(get(next, i, window.win) == (i % 2 == 0 ? 0 : 5000 * rank) + 100 * round + i,
                   "another rank's view is wrong");
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// A put that an earlier epoch has completed becomes visible at the next fence, whatever that asserts of its own epochs.
void MPI_MODE_NOPRECEDE_hides_no_earlier_put() {
    Window window;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    put(3000 + rank, next, 9, window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED | MPI_MODE_NOPUT | MPI_MODE_NOSTORE, window.win);
    expect(window.at(9) == 3000 + previous, "a put is not seen after MPI_Win_fence");
}

void MPI_MODE_NOPUT_of_MPI_Win_post_hides_no_earlier_put() {
    Window window;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    put(3500 + rank, next, 9, window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Group all = MPI_GROUP_NULL, from = MPI_GROUP_NULL, to = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &previous, &from);
    MPI_Group_incl(all, 1, &next, &to);
    int seen = 0;
    MPI_Win_post(from, MPI_MODE_NOPUT | MPI_MODE_NOSTORE, window.win);
    MPI_Win_start(to, 0, window.win);
    MPI_Get(&seen, 1, MPI_INT, next, 9, 1, MPI_INT, window.win);
    MPI_Win_complete(window.win);
    MPI_Win_wait(window.win);
    expect(seen == 3500 + rank && window.at(9) == 3500 + previous, "a put before MPI_Win_post is not seen");
    for (MPI_Group* group : {&all, &from, &to})
        MPI_Group_free(group);
}

// A result in the window's own memory is a store of the owner's (MPI 4.0 section 12.7).
void A_result_in_the_own_window_reaches_others() {
    Window window;
    const int next = (rank + 1) % size;
    window.set(0, 4000 + rank);
    MPI_Win_fence(0, window.win);
    MPI_Get(window.memory.at(16), 1, MPI_INT, next, 0, 1, MPI_INT, window.win);
    MPI_Win_fence(0, window.win);
    expect(window.at(4) == 4000 + next, "the result is not there");
    MPI_Win_fence(0, window.win);
    expect(get(next, 4, window.win) == 4000 + (next + 1) % size, "others do not see the result");
    MPI_Barrier(MPI_COMM_WORLD);
}

void What_was_put_before_MPI_Win_free_is_on_the_device() {
    Window window;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    put(6000 + rank, next, 11, window.win);
    MPI_Win_free(&window.win);
    expect(window.at(11) == 6000 + previous, "a put is not seen after MPI_Win_free");
}

void A_rank_may_expose_host_memory_or_none() {
    Window window(rank == 0 ? gpu::Kind::kHost : gpu::Kind::kManaged);
    if (rank == 0)
        put(7, size - 1, 1, window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    lock_and_unlock_own(window.win);
    expect(window.at(1) == (rank == size - 1 ? 7 : 1), "a window among those of other memory");
    MPI_Barrier(MPI_COMM_WORLD);
    // No bytes at a device address: MPI still tells the address.
    const gpu::Memory memory(gpu::Kind::kDevice, 64);
    MPI_Win win = MPI_WIN_NULL;
    MPI_Win_create(memory.address(), rank == 0 ? 64 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    void* base = nullptr;
    int found = 0;
    MPI_Win_get_attr(win, MPI_WIN_BASE, static_cast<void*>(&base), &found);
    expect(base == memory.address(), "MPI_WIN_BASE of a window without bytes");
    MPI_Win_fence(0, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

// Larger than what is compared at a time.
void A_large_window_is_compared_to_its_end() {
    const std::size_t bytes = (std::size_t{20} << 20) + 4;
    const gpu::Memory memory(gpu::Kind::kDevice, std::vector<std::byte>(bytes, std::byte{1}));
    gpu::Driver::get().synchronize();
    MPI_Win win = MPI_WIN_NULL;
    MPI_Win_create(memory.address(), static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    const int next = (rank + 1) % size;
    const std::vector<unsigned char> one(std::size_t{9} << 20, static_cast<unsigned char>(10 + rank));
    const unsigned char last = static_cast<unsigned char>(50 + rank);
    gpu::Driver::get().copy(memory.at(bytes - 1), &last, 1);
    gpu::Driver::get().synchronize();
    MPI_Win_fence(0, win);
    MPI_Put(one.data(), static_cast<int>(one.size()), MPI_BYTE, next, 3, static_cast<int>(one.size()), MPI_BYTE, win);
    unsigned char seen = 0;
    MPI_Get(&seen, 1, MPI_BYTE, next, static_cast<MPI_Aint>(bytes) - 1, 1, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    const std::vector<std::byte> content = memory.read();
    std::vector<std::byte> wanted(bytes, std::byte{1});
    std::memset(&wanted[3], 10 + (rank + size - 1) % size, one.size());
    std::memset(&wanted[bytes - 1], last, 1);
    expect(content == wanted, "the content of a large window");
    expect(seen == 50 + next, "the last byte of a large window");
    MPI_Win_free(&win);
}

}  // namespace

int main(int argc, char** argv) {
    if (OMPI_MAJOR_VERSION < 5)  // "rdma" needs process_vm_readv for MPI_Win_create, which containers forbid
        setenv("OMPI_MCA_osc", "^rdma,ucx", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    Attributes_are_those_of_the_device_memory();
    Others_see_what_the_owner_stored_before_MPI_Win_unlock_of_any_rank();
    The_owner_sees_what_others_put_after_MPI_Win_lock_of_any_rank();
    Neither_side_writes_over_what_the_other_has_changed();
    MPI_MODE_NOPRECEDE_hides_no_earlier_put();
    MPI_MODE_NOPUT_of_MPI_Win_post_hides_no_earlier_put();
    A_result_in_the_own_window_reaches_others();
    What_was_put_before_MPI_Win_free_is_on_the_device();
    A_rank_may_expose_host_memory_or_none();
    A_large_window_is_compared_to_its_end();
    MPI_Finalize();
    return failures > 0 ? 1 : 0;
}
