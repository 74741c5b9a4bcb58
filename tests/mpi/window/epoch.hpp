// Windows on host memory and in memory of some kind, and one random epoch on both. Test program only.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "../staged/buffers.hpp"
#include "../staged/views.hpp"

namespace window_test {

using staged_test::Buffer;
using staged_test::Dice;
using staged_test::kReference;
using staged_test::kTested;
using staged_test::Side;
using staged_test::View;

// Each rank's window is a number of slots of a few ints. A dynamic window has as many slots in each of its regions.
inline constexpr int kSlots = 24, kInts = 16, kRegions = 3, kSlotsOfRegion = kSlots / kRegions;
inline constexpr std::size_t kSlotBytes = kInts * sizeof(int), kWindowBytes = kSlots * kSlotBytes;
inline constexpr std::size_t kRegionBytes = kSlotsOfRegion * kSlotBytes;

class Windows {
  public:
    // kHost: windows over host memory on all ranks; kAllocated: over memory of MPI's; kDevice: over device memory on
    // all ranks, which they map where they can; kAnywhere: of every kind; kDynamic: dynamic windows with regions of
    // every kind, beside windows over host memory.
    enum class Where { kHost, kAllocated, kDevice, kAnywhere, kDynamic };
    Windows(Dice& own, Where where);
    ~Windows();
    Windows(const Windows&) = delete;
    Windows& operator=(const Windows&) = delete;

    // Between two epochs, on all ranks: detaches some regions of dynamic windows, and attaches them again as they are
    // or in other memory.
    void reattach();

    // What the program stores into its own window's memory.
    void store(Side side, int slot, const std::vector<int>& values);
    std::string difference() const;  // "" where both sides have the same bytes

    // The displacement of a slot at its target; all are 0 at MPI_PROC_NULL.
    MPI_Aint displacement(Side side, int target, int slot) const;

    bool allocated() const { return where_ == Where::kAllocated; }

    MPI_Win win[2] = {MPI_WIN_NULL, MPI_WIN_NULL};
    int rank = 0, size = 0;

  private:
    void create(Side side);
    void create_dynamic();
    void exchange_addresses();
    std::vector<std::byte> content(Side side) const;

    Dice& own_;
    const Where where_;
    std::vector<gpu::Memory> memory_[2];  // of a dynamic window, one each region
    void* allocated_[2] = {};
    std::vector<MPI_Aint> addresses_;  // of all ranks' regions
};

enum class Kind { kPut, kGet, kAccumulate, kGetAccumulate, kFetchAndOp, kCompareAndSwap };

// One call, drawn alike on all ranks and made by one.
struct Action {
    Kind kind;
    int origin, target, slot;
    int elements, ints;  // elements of the origin's type, and ints in each
    MPI_Op op;
    bool request, flushed, vector, no_origin;
};

// What the call has of its own on the origin's rank.
struct Made {
    std::unique_ptr<View> view;
    std::unique_ptr<Buffer> origin, compare, result;
};

class Epoch {
  public:
    Epoch(Dice& common, Dice& own, Windows& windows);
    void run();
    int failures = 0;

  private:
    enum class Form { kFence, kGroups, kLocks, kLockAll };
    enum class Use { kFree, kExclusive, kRead, kSummed };

    void draw();
    bool draw_action();
    bool takes(const Action& action);
    void make_buffers(std::size_t i);
    bool touched(int target) const;  // does an action write the target's window?

    void run(Side side);
    void run_fence(Side side);
    void run_groups(Side side);
    void run_locks(Side side);
    void run_lock_all(Side side);
    void store(Side side);
    void flush(int target, MPI_Win win);
    void call(Side side, std::size_t i, bool passive);
    int make(const Action& a, const Made& made, Side side, MPI_Request* request, MPI_Datatype target_type);
    void expect_results(std::size_t i, const char* after);
    void expect(bool right, const std::string& what);

    Dice &common_, &own_;
    Windows& windows_;
    Form form_;
    std::vector<Action> actions_;
    std::vector<Made> made_;
    std::vector<std::vector<Use>> use_;       // of each rank's slots
    std::vector<std::vector<bool>> exposed_;  // [target][origin], for kGroups
    std::vector<std::pair<int, std::vector<int>>> stores_;
    bool assertions_ = false, shared_ = false;
};

}  // namespace window_test
