#include "ranks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vgpu::test {
namespace {

using Clock = std::chrono::steady_clock;

// Shared by the ranks of a test.
struct SharedMemory {
    std::atomic<int> posted[64];
    ncclUniqueId ids[64];
    std::atomic<int> arrived[256];
    std::atomic<int> values[64];
    std::atomic<int> finished;  // ranks whose body came to its end
};

SharedMemory* g_shared = nullptr;

SharedMemory* map_shared(int fd) {
    void* at = mmap(nullptr, sizeof(SharedMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? nullptr : static_cast<SharedMemory*>(at);
}

void wait_until(const std::function<bool()>& condition) {
    while (!condition())
        sleep_ms(1);
}

[[noreturn]] void be_rank(int rank, const std::function<void(Rank&)>& body) {
    g_shared = map_shared(std::atoi(std::getenv("VGPU_TEST_MEMORY")));
    const int ranks = std::atoi(std::getenv("VGPU_TEST_RANKS"));
    CUcontext context = nullptr;
    int devices = 0;
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceGetCount(&devices), CUDA_SUCCESS);
    const int device = std::atoi(std::getenv("VGPU_TEST_DEVICE")) % std::max(1, devices);  // real GPUs may be fewer
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    Rank self(rank, ranks);
    if (!testing::Test::HasFailure())
        body(self);
    g_shared->finished++;
    std::fflush(nullptr);
    std::exit(testing::Test::HasFailure() ? 1 : 0);
}

struct Child {
    pid_t pid = -1;
    int from = -1;
    bool running = true;
};

void put(const Environment& environment) {
    for (const auto& [name, value] : environment)
        setenv(name.c_str(), value.c_str(), 1);
}

Child start(int rank, int ranks, int shared, const Options& options) {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return {};
    const pid_t pid = fork();
    if (pid == 0) {
        put({{"VGPU_TEST_RANK", std::to_string(rank)},
             {"VGPU_TEST_RANKS", std::to_string(ranks)},
             {"VGPU_TEST_MEMORY", std::to_string(shared)},
             {"VGPU_TEST_DEVICE", std::to_string(options.device(rank))},
             {"VGPU_COUNT", std::to_string(options.devices)},
             {"NCCL_SOCKET_IFNAME", "lo"}});
        put(options.environment);
        if (const auto own = options.environment_of.find(rank); own != options.environment_of.end())
            put(own->second);
        dup2(pipe_ends[1], 1);
        dup2(pipe_ends[1], 2);
        execl("/proc/self/exe", "/proc/self/exe", filter.c_str(), "--gtest_color=no", static_cast<char*>(nullptr));
        _exit(127);
    }
    close(pipe_ends[1]);
    return {pid, pipe_ends[0], true};
}

// Where all are to pass, the others of a rank that has failed are not waited for long: they may wait for that one.
void follow(std::vector<Child>& children, std::vector<Ended>& ends, int seconds, bool all_pass) {
    Clock::time_point until = Clock::now() + std::chrono::seconds(seconds);
    for (std::size_t open = children.size(); open > 0;) {
        std::vector<pollfd> entries;
        for (const Child& child : children)
            entries.push_back({child.from, POLLIN, 0});
        poll(entries.data(), entries.size(), 50);
        const bool late = Clock::now() > until;
        for (std::size_t i = 0; i < children.size(); ++i) {
            char buffer[4096];
            if ((entries[i].revents & (POLLIN | POLLHUP)) != 0) {
                const ssize_t got = read(children[i].from, buffer, sizeof buffer);
                if (got > 0) {
                    ends[i].output.append(buffer, static_cast<std::size_t>(got));
                } else {
                    close(children[i].from);
                    children[i].from = -1;  // poll skips it
                }
            }
            if (children[i].running && late) {
                ends[i].timed_out = true;
                kill(children[i].pid, SIGKILL);
            }
            if (children[i].running && waitpid(children[i].pid, &ends[i].status, WNOHANG) == children[i].pid) {
                children[i].running = false;
                if (all_pass && ends[i].status != 0)
                    until = std::min(until, Clock::now() + std::chrono::seconds(3));
            }
        }
        open = 0;
        for (const Child& child : children)
            open += child.running || child.from >= 0 ? 1 : 0;
    }
}

}  // namespace

void sleep_ms(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

Rank::Rank(int number, int count) : rank(number), ranks(count) {
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

ncclUniqueId Rank::unique_id(int maker) {
    const int slot = ids_++;
    if (rank == maker) {
        EXPECT_EQ(ncclGetUniqueId(&g_shared->ids[slot]), ncclSuccess) << ncclGetLastError(nullptr);
        g_shared->posted[slot] = 1;
    }
    wait_until([&] { return g_shared->posted[slot] != 0; });
    return g_shared->ids[slot];
}

ncclComm_t Rank::communicator(ncclConfig_t* config) {
    ncclComm_t made = nullptr;
    const ncclUniqueId id = unique_id();
    EXPECT_EQ(ncclCommInitRankConfig(&made, ranks, id, rank, config), ncclSuccess) << ncclGetLastError(nullptr);
    return made;
}

void Rank::connect(ncclComm_t comm) {
    const Memory buffer(64);
    EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, stream), ncclSuccess);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank)
            continue;
        EXPECT_EQ(ncclSend(buffer.get(), 0, ncclInt, peer, comm, stream), ncclSuccess);
        EXPECT_EQ(ncclRecv(buffer.get(), 0, ncclInt, peer, comm, stream), ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
}

void Rank::barrier() {
    const int slot = barriers_++;
    g_shared->arrived[slot]++;
    wait_until([&] { return g_shared->arrived[slot] == ranks; });
}

void Rank::post(int slot, int value) {
    g_shared->values[slot] = value;
}
int Rank::look(int slot) const {
    return g_shared->values[slot];
}
int Rank::await(int slot) {
    wait_until([&] { return g_shared->values[slot] != 0; });
    return g_shared->values[slot];
}

std::vector<Ended> run_ranks(int count, const std::function<void(Rank&)>& body, const Options& options,
                             bool expect_all_pass) {
    if (const char* rank = std::getenv("VGPU_TEST_RANK"); rank != nullptr)
        be_rank(std::atoi(rank), body);
    std::fflush(nullptr);
    const int shared = memfd_create("shared", 0);  // inherited by the ranks
    EXPECT_EQ(ftruncate(shared, sizeof(SharedMemory)), 0);
    std::vector<Child> children;
    std::vector<Ended> ends(static_cast<std::size_t>(count));
    for (int rank = 0; rank < count; ++rank)
        children.push_back(start(rank, count, shared, options));
    follow(children, ends, options.seconds, expect_all_pass);
    if (expect_all_pass) {
        EXPECT_EQ(map_shared(shared)->finished, count);
    }
    close(shared);
    for (int rank = 0; rank < count && expect_all_pass; ++rank) {
        const Ended& end = ends[static_cast<std::size_t>(rank)];
        EXPECT_TRUE(end.passed()) << "rank " << rank << (end.timed_out ? " timed out" : "") << ", status " << end.status
                                  << ":\n"
                                  << end.output;
    }
    return ends;
}

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
    EXPECT_EQ(cuMemAlloc(&address_, bytes == 0 ? 1 : bytes), CUDA_SUCCESS);
}
Memory::~Memory() {
    cuMemFree(address_);
}

bool drained(CUstream stream, int milliseconds) {
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
        if (Clock::now() > until)
            return false;
        sleep_ms(1);
    }
    return true;
}

void expect_said(const std::vector<Ended>& ends, const std::vector<std::string>& words) {
    std::string output;
    for (const Ended& end : ends)
        output += end.output;
    for (const std::string& word : words)
        EXPECT_NE(output.find(word), std::string::npos) << "no \"" << word << "\" in\n" << output;
}

Options two_hosts(int first) {
    Options options;
    for (int rank = 0; rank < options.devices; ++rank)
        options.environment_of[rank] = {{"NCCL_HOSTID", rank < first ? "here" : "there"}};
    return options;
}

ncclResult_t settled(ncclComm_t communicator, int milliseconds) {
    ncclResult_t state = ncclInProgress;
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (Clock::now() < until) {
        EXPECT_EQ(ncclCommGetAsyncError(communicator, &state), ncclSuccess);
        if (state != ncclInProgress)
            return state;
        sleep_ms(1);
    }
    return state;
}

ncclResult_t error_of(ncclComm_t communicator, int milliseconds) {
    ncclResult_t state = ncclSuccess;
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (Clock::now() < until && (state == ncclSuccess || state == ncclInProgress)) {
        EXPECT_EQ(ncclCommGetAsyncError(communicator, &state), ncclSuccess);
        sleep_ms(1);
    }
    return state;
}

}  // namespace vgpu::test
