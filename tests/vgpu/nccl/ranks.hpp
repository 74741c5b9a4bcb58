// Runs a test on several ranks, each a process of its own: the test program, started again for the one test that is
// running. In each such process run_ranks() runs the body and ends the process; in the first it waits for them.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace vgpu::test {

// The call succeeds, or the test ends.
#define OK(call)                                                                    \
    do {                                                                            \
        ASSERT_EQ(call, ncclSuccess) << #call << ": " << ncclGetLastError(nullptr); \
    } while (false)
#define CU_OK(call)                             \
    do {                                        \
        ASSERT_EQ(call, CUDA_SUCCESS) << #call; \
    } while (false)

using Environment = std::map<std::string, std::string>;

struct Options {
    Environment environment;                    // for all ranks
    std::map<int, Environment> environment_of;  // for one
    int devices = 8;                            // VGPU_COUNT
    int seconds = 60;                           // then the ranks are killed
    std::function<int(int)> device = [](int r) { return r; };
};

// How a rank ended.
struct Ended {
    int status = -1;  // as waitpid gives it
    std::string output;
    bool timed_out = false;
    bool passed() const { return status == 0; }
};

// The rank that a body runs as, and what it shares with the others.
class Rank {
  public:
    Rank(int number, int count);

    const int rank;
    const int ranks;
    CUstream stream = nullptr;

    // A unique id that rank `maker` makes; each call is a new one, and all ranks call.
    ncclUniqueId unique_id(int maker = 0);
    // A communicator of all ranks.
    ncclComm_t communicator(ncclConfig_t* config = nullptr);
    // Has NCCL connect the ranks for small collectives and for messages, in which it waits for all of them.
    void connect(ncclComm_t comm);
    // Waits for all ranks.
    void barrier();
    // Numbers in memory that all ranks share, 0 at first.
    void post(int slot, int value);
    int await(int slot);  // until it is not 0
    int look(int slot) const;

  private:
    int ids_ = 0;
    int barriers_ = 0;
};

// Fails the test when a rank does not pass, unless `expect_all_pass` is false.
std::vector<Ended> run_ranks(int count, const std::function<void(Rank&)>& body, const Options& options = {},
                             bool expect_all_pass = true);

// Fails the test unless each of the words is in what the ranks have printed.
void expect_said(const std::vector<Ended>& ends, const std::vector<std::string>& words);
// Two hosts: the first ranks on one, the others on another.
Options two_hosts(int first);

// Device memory for a scope, filled and read through the driver.
class Memory {
  public:
    explicit Memory(std::size_t bytes);
    template <typename T>
    explicit Memory(const std::vector<T>& values) : Memory(values.size() * sizeof(T)) {
        write(values);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();

    void* get() const { return reinterpret_cast<void*>(address_); }
    void* at(std::size_t offset) const { return reinterpret_cast<void*>(address_ + offset); }
    template <typename T>
    void write(const std::vector<T>& values) {
        if (!values.empty()) {
            // The copy may still be on its way to the device when the call returns, and other streams do not wait for
            // it.
            EXPECT_EQ(cuMemcpyHtoD(address_, values.data(), values.size() * sizeof(T)), CUDA_SUCCESS);
            EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
        }
    }
    template <typename T>
    std::vector<T> read() const {
        std::vector<T> values(bytes_ / sizeof(T));
        if (!values.empty()) {
            EXPECT_EQ(cuMemcpyDtoH(values.data(), address_, values.size() * sizeof(T)), CUDA_SUCCESS);
        }
        return values;
    }

  private:
    CUdeviceptr address_ = 0;
    std::size_t bytes_;
};

// Waits until the stream is idle; false when it is not within the time.
bool drained(CUstream stream, int milliseconds);
// Polls until the communicator's state is no longer ncclInProgress.
ncclResult_t settled(ncclComm_t communicator, int milliseconds = 20000);
// Polls until the communicator has an error.
ncclResult_t error_of(ncclComm_t communicator, int milliseconds = 20000);
void sleep_ms(int milliseconds);

}  // namespace vgpu::test
