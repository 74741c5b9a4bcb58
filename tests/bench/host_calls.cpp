// Makes N host calls of one kind: what instructions.test counts and host_path.py times.
//   host_calls CALL,... N        of each CALL in turn 10 to warm up, N and 2 N: send, recv (to and from MPI_PROC_NULL),
//   allreduce (on MPI_COMM_SELF), wait (a message from this process to itself by Irecv, Isend and a Wait for each),
//   waitall (the same with Waitall), longer-wait and longer-waitall (messages of 1 KiB in place of 8 bytes)
// The buffers are on the stack, or with HOST_CALLS_MAPPED=1 each on a page of mapped memory, as malloc gives large
// ones. With HOST_CALLS_USE_GPU=1 the process has a CUDA context, as a GPU program has that calls MPI on host memory.
// With HOST_CALLS_IN_FLIGHT=FROM rank FROM has sent the one after it a large message in device memory, which is
// received when rank 0 has made its calls; the other ranks make none.
//   host_calls compare CALL BYTES   ping-pong, allreduce, alltoallv or gatherv between all ranks, window (64 messages
//   from rank 0 to rank 1 under way at once, and a word back) or one-buffer (the same, all received into one buffer, as
//   OSU's osu_bw has it), or split or dup (and the free of what they make), in turns by the functions that the program
//   finds (the library's, where it is preloaded) and by libmpi's own; prints the ratio of their times and that of
//   libmpi's to libmpi's, which is 1 but for noise, and the microseconds of libmpi's own
#include <dlfcn.h>
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

constexpr int kLonger = 128;
constexpr long kWarmUp = 10;

// noinline: callgrind counts what happens below this function alone.
__attribute__((noinline)) void repeat_calls(std::string_view call, long times, double& in, double& out) {
    const int count = call.starts_with("longer") ? kLonger : 1;
    for (long i = 0; i < times; ++i) {
        if (call == "send")
            MPI_Send(&in, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
        else if (call == "recv")
            MPI_Recv(&in, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (call == "allreduce")
            MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        else {
            MPI_Request requests[2];
            MPI_Irecv(&out, count, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[0]);
            MPI_Isend(&in, count, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[1]);
            if (call.ends_with("waitall")) {
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else {
                MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
                MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            }
        }
    }
}

void make_series(std::string_view calls, long times, double& in, double& out) {
    for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
        end = calls.find(',', begin);
        for (const long these : {kWarmUp, times, 2 * times})
            repeat_calls(calls.substr(begin, end == std::string_view::npos ? end : end - begin), these, in, out);
    }
}

// On the buffers that are asked for.
void make_calls(std::string_view calls, long times) {
    double in[kLonger] = {1}, out[kLonger] = {};
    if (std::getenv("HOST_CALLS_MAPPED") == nullptr)
        return make_series(calls, times, in[0], out[0]);
    constexpr std::size_t kPage = 4096;
    void* const pages = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        std::exit(2);
    auto* const mapped = static_cast<double*>(pages);
    make_series(calls, times, mapped[0], mapped[kPage / sizeof(double)]);
    munmap(pages, 2 * kPage);
}

// The calls of rank 0 while a device message is under way from rank `from` to the next one.
void repeat_beside(int rank, int from, std::string_view calls, long times) {
    constexpr int kBytes = 1 << 20;
    const gpu::Memory memory(gpu::Kind::kDevice, kBytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == from)
        MPI_Isend(memory.at(0), kBytes, MPI_BYTE, from + 1, 0, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        make_calls(calls, times);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == from + 1)
        MPI_Recv(memory.at(0), kBytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// The functions that are timed, as one library has them.
struct Functions {
    decltype(&MPI_Send) send;
    decltype(&MPI_Recv) recv;
    decltype(&MPI_Isend) isend;
    decltype(&MPI_Irecv) irecv;
    decltype(&MPI_Waitall) waitall;
    decltype(&MPI_Allreduce) allreduce;
    decltype(&MPI_Alltoallv) alltoallv;
    decltype(&MPI_Gatherv) gatherv;
    decltype(&MPI_Comm_split) split;
    decltype(&MPI_Comm_dup) dup;
    decltype(&MPI_Comm_free) free;
};

Functions functions_of(void* library) {
    const auto find = [library](const char* name) {
        void* found = dlsym(library, name);
        if (found == nullptr) {
            std::fprintf(stderr, "host_calls: %s\n", dlerror());
            std::exit(2);
        }
        return found;
    };
    return {reinterpret_cast<decltype(&MPI_Send)>(find("MPI_Send")),
            reinterpret_cast<decltype(&MPI_Recv)>(find("MPI_Recv")),
            reinterpret_cast<decltype(&MPI_Isend)>(find("MPI_Isend")),
            reinterpret_cast<decltype(&MPI_Irecv)>(find("MPI_Irecv")),
            reinterpret_cast<decltype(&MPI_Waitall)>(find("MPI_Waitall")),
            reinterpret_cast<decltype(&MPI_Allreduce)>(find("MPI_Allreduce")),
            reinterpret_cast<decltype(&MPI_Alltoallv)>(find("MPI_Alltoallv")),
            reinterpret_cast<decltype(&MPI_Gatherv)>(find("MPI_Gatherv")),
            reinterpret_cast<decltype(&MPI_Comm_split)>(find("MPI_Comm_split")),
            reinterpret_cast<decltype(&MPI_Comm_dup)>(find("MPI_Comm_dup")),
            reinterpret_cast<decltype(&MPI_Comm_free)>(find("MPI_Comm_free"))};
}

constexpr int kWindow = 64;

// Messages there and back, or allreduces, as often as one turn has them.
class Turn {
  public:
    Turn(std::string_view call, int bytes)
        : call_(call == "allreduce"    ? Call::kAllreduce
                : call == "alltoallv"  ? Call::kAlltoallv
                : call == "gatherv"    ? Call::kGatherv
                : call == "split"      ? Call::kSplit
                : call == "dup"        ? Call::kDup
                : call == "window"     ? Call::kWindow
                : call == "one-buffer" ? Call::kOneBuffer
                                       : Call::kPingPong),
          bytes_(bytes),
          inner_(call_ == Call::kSplit || call_ == Call::kDup          ? 50
                 : call_ == Call::kWindow || call_ == Call::kOneBuffer ? 4
                 : bytes < (8 << 10)                                   ? 300
                 : bytes < (1 << 20)                                   ? 20
                                                                       : 10),
          a_(blocks() * (static_cast<std::size_t>(bytes) + 8), 1),
          b_(call_ == Call::kWindow ? a_.size() * kWindow : a_.size()),
          counts_(blocks(), bytes) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        for (int& count : counts_)
            offsets_.push_back(static_cast<int>(&count - counts_.data()) * bytes);
    }

    double microseconds(const Functions& mpi) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (int i = 0; i < inner_; ++i)
            once(mpi);
        return (MPI_Wtime() - start) / inner_ * 1e6;
    }

  private:
    // One for each rank in the calls that have so many.
    std::size_t blocks() const {
        int ranks = 1;
        if (call_ == Call::kAlltoallv || call_ == Call::kGatherv)
            MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        return static_cast<std::size_t>(ranks);
    }

    void once(const Functions& mpi) {
        if (call_ == Call::kSplit || call_ == Call::kDup) {
            MPI_Comm comm = MPI_COMM_NULL;
            if (call_ == Call::kSplit)
                mpi.split(MPI_COMM_WORLD, 0, -rank_, &comm);
            else
                mpi.dup(MPI_COMM_WORLD, &comm);
            mpi.free(&comm);
        } else if (call_ == Call::kAllreduce) {
            mpi.allreduce(a_.data(), b_.data(), bytes_ / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        } else if (call_ == Call::kAlltoallv) {
            mpi.alltoallv(a_.data(), counts_.data(), offsets_.data(), MPI_CHAR, b_.data(), counts_.data(),
                          offsets_.data(), MPI_CHAR, MPI_COMM_WORLD);
        } else if (call_ == Call::kGatherv) {
            mpi.gatherv(a_.data(), bytes_, MPI_CHAR, b_.data(), counts_.data(), offsets_.data(), MPI_CHAR, 0,
                        MPI_COMM_WORLD);
        } else if (call_ == Call::kWindow || call_ == Call::kOneBuffer) {
            window(mpi);
        } else if (rank_ == 0) {
            mpi.send(a_.data(), bytes_, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            mpi.recv(b_.data(), bytes_, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank_ == 1) {
            mpi.recv(b_.data(), bytes_, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            mpi.send(a_.data(), bytes_, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
    }

    void window(const Functions& mpi) {
        MPI_Request requests[kWindow];
        if (rank_ > 1)
            return;
        for (int i = 0; i < kWindow; ++i)
            if (rank_ == 0)
                mpi.isend(a_.data(), bytes_, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[i]);
            else
                mpi.irecv(b_.data() + (call_ == Call::kWindow ? i * (bytes_ + 8) : 0), bytes_, MPI_CHAR, 0, 0,
                          MPI_COMM_WORLD, &requests[i]);
        mpi.waitall(kWindow, requests, MPI_STATUSES_IGNORE);
        if (rank_ == 0)
            mpi.recv(&word_, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            mpi.send(&word_, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }

    enum class Call { kPingPong, kAllreduce, kAlltoallv, kGatherv, kSplit, kDup, kWindow, kOneBuffer };
    Call call_;
    int bytes_, inner_, rank_ = 0, word_ = 0;
    std::vector<char> a_, b_;
    std::vector<int> counts_, offsets_;
};

double median(std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

// Turns that follow each other meet the same machine, so what else it does falls out of the ratio of the two: the
// median of many such ratios moves by less than a hundredth where the times themselves move by half.
void compare(std::string_view call, int bytes) {
    const Functions found = functions_of(RTLD_DEFAULT),
                    own = functions_of(dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD));
    Turn turn(call, bytes);
    std::vector<double> ratios, noise, times;
    const int rounds = bytes < (1 << 20) ? 600 : 200;
    for (int round = 0; round < rounds; ++round) {
        // Every order comes equally often, for a turn may profit from the one before it.
        double first = 0, second = 0, third = 0;
        if (round % 2 == 0) {
            first = turn.microseconds(own);
            second = turn.microseconds(found);
            third = turn.microseconds(own);
        } else {
            third = turn.microseconds(own);
            first = turn.microseconds(own);
            second = turn.microseconds(found);
        }
        ratios.push_back(second / first);
        noise.push_back(third / first);
        times.push_back(first);
    }
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        std::printf("%.4f %.4f %.4f\n", median(ratios), median(noise), median(times));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: host_calls CALL,... N | host_calls compare CALL BYTES\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char* from = std::getenv("HOST_CALLS_IN_FLIGHT");
    if (std::getenv("HOST_CALLS_USE_GPU") != nullptr)
        gpu::Driver::get().use(from != nullptr ? rank : 0);
    if (std::string_view(argv[1]) == "compare") {
        compare(argv[2], std::atoi(argv[3]));
    } else if (from != nullptr) {
        repeat_beside(rank, std::atoi(from), argv[1], std::atol(argv[2]));
    } else {
        make_calls(argv[1], std::atol(argv[2]));
    }
    MPI_Finalize();
    return 0;
}
