// One NCCL communicator of this process and the lane on which its work runs; their making, their cache and their end.
// comm/establish makes them, comm::State holds them, collectives.cpp launches on them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "request/wait.hpp"

struct ncclComm;

namespace swy::carrier::nccl {

// A member of a group of GPUs, as every other member sees it. Sent as bytes.
struct Member {
    std::uint64_t host = 0;  // hash of host name and boot id (or NCCL_HOSTID)
    std::uint64_t process = 0;
    std::array<std::uint8_t, 16> gpu{};  // UUID
    bool operator==(const Member&) const = default;
};
using Group = std::vector<Member>;  // ordered by rank
inline constexpr std::size_t kUniqueIdBytes = 128;
using UniqueId = std::array<std::byte, kUniqueIdBytes>;

struct Counters {  // of this process, since MPI_Init
    long made = 0, reused = 0, evicted = 0, live = 0, live_max = 0;
};

class Communicator {
  public:
    ~Communicator();
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    // Draws a unique id, on the rank whose id the group will use. "" or what NCCL says.
    static std::string draw(UniqueId& id);

    // Makes the communicator; every member of the group calls this. Waits with MPI's progress, until `given_up` says
    // that another member has failed. nullptr on failure, with `problem` set unless it was given up.
    static std::shared_ptr<Communicator> make(const Group& group, int rank, const UniqueId& id, device::Context context,
                                              const std::function<bool()>& given_up, std::string& problem);

    // An idle communicator of exactly this group, found by its id (0: any). The members must agree on the id before
    // they take it.
    static std::uint64_t idle_id(const Group& group);
    static std::shared_ptr<Communicator> take_idle(const Group& group, std::uint64_t id);

    // The MPI communicator is gone: keeps the NCCL communicator for a later one of the same group, ends the least
    // recently used beyond the bound (SWITCHYARD_COMM_CACHE). Local and non-blocking. Null is allowed.
    static void retire(std::shared_ptr<Communicator> communicator);

    // Ends all that is left, at MPI_Finalize: all members do. Aborts what does not end in time.
    static void end_all();

    static Counters counters();

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(group_.size()); }
    std::uint64_t id() const { return id_; }
    ncclComm* handle() const { return handle_; }
    device::Lane& lane() { return lane_; }
    device::Context context() const { return lane_.context(); }

    // Waits until the launch of a call that returned ncclInProgress is through. "" or the error.
    std::string settle(int result, const request::Deadline& deadline, const std::function<bool()>& given_up = {});

    // Waits, with MPI's progress, until all work on the lane is done. "" or what went wrong; the communicator then is
    // aborted.
    std::string finish(const request::Deadline& deadline);

    // After an error: NCCL gives everything back, peers see a failure. Nothing can be launched any more.
    void abort();
    bool usable() const { return handle_ != nullptr; }

  private:
    Communicator(Group group, int rank, std::uint64_t id) : group_(std::move(group)), rank_(rank), id_(id) {}
    bool start_end();  // begins a non-blocking ncclCommFinalize; true while that is under way
    bool step_end();   // true when the communicator is gone

    Group group_;
    int rank_;
    std::uint64_t id_;
    ncclComm* handle_ = nullptr;
    device::Lane lane_;
    bool ending_ = false;
};

}  // namespace swy::carrier::nccl
