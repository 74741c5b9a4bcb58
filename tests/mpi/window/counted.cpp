// Synchronises a window of device memory N times, so that counted.test can count in the virtual GPUs' log what that
// copies. Arguments: the way, N, the window's bytes, and how many ints each rank changes in the next one's window
// before each time, with a gap between each two.
#include <mpi.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "../gpu.hpp"

namespace {

int rank = 0, size = 0, next = 0, before = 0;

using Way = std::function<void(MPI_Win, const std::function<void()>& change)>;

std::map<std::string, Way> ways() {
    const auto fence = [](int assertion) {
        return [assertion](MPI_Win win, const auto& change) {
            change();
            MPI_Win_fence(assertion, win);
        };
    };
    const auto locked = [](MPI_Win win, const auto& change) {
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        change();
        MPI_Win_unlock(next, win);
    };
    const auto post = [](MPI_Win win, const auto& change) {
        MPI_Group all = MPI_GROUP_NULL, from = MPI_GROUP_NULL, to = MPI_GROUP_NULL;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 1, &before, &from);
        MPI_Group_incl(all, 1, &next, &to);
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        change();
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        for (MPI_Group* group : {&all, &from, &to})
            MPI_Group_free(group);
    };
    const auto flush = [](MPI_Win win, const auto& change) {
        change();
        MPI_Win_flush(next, win);
    };
    const auto sync = [](MPI_Win win, const auto& change) {
        change();
        MPI_Win_flush(next, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(win);
    };
    return {{"fence", fence(0)}, {"fence-asserted", fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT)},
            {"lock", locked},    {"post", post},
            {"regions", locked}, {"flush", flush},
            {"sync", sync}};
}

// To a dynamic window, as 16 regions.
void attach_in_parts(const gpu::Memory& memory, MPI_Win& win) {
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (std::size_t part = memory.size() / 16, at = 0; at < memory.size(); at += part)
        MPI_Win_attach(win, memory.at(at), static_cast<MPI_Aint>(part));
}

}  // namespace

int main(int argc, char** argv) {
    if (OMPI_MAJOR_VERSION < 5)  // "rdma" needs process_vm_readv for MPI_Win_create, which containers forbid
        setenv("OMPI_MCA_osc", "^rdma,ucx", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 5)
        MPI_Abort(MPI_COMM_WORLD, 1);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    const std::string way = argv[1];
    const int times = std::atoi(argv[2]), bytes = std::atoi(argv[3]), changed = std::atoi(argv[4]);
    gpu::Memory memory(gpu::Kind::kDevice, static_cast<std::size_t>(bytes));
    MPI_Win win = MPI_WIN_NULL;
    if (way == "regions")
        attach_in_parts(memory, win);
    else
        MPI_Win_create(memory.address(), bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(way.starts_with("fence") ? 0 : MPI_MODE_NOSUCCEED, win);
    const bool passive = way == "flush" || way == "sync";
    if (passive)
        MPI_Win_lock_all(0, win);
    int value = 0;
    for (int time = 0; time < times; ++time) {
        MPI_Barrier(MPI_COMM_WORLD);  // or what a rank puts early is copied by the synchronisation before
        ways().at(way)(win, [&] {
            value += 0x01010101;  // each of its bytes differs
            for (int i = 0; i < changed; ++i)
                MPI_Put(&value, 1, MPI_INT, next, 2 * i, 1, MPI_INT, win);
        });
    }
    if (passive)
        MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
