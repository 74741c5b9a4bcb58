// Which device memory the ranks of a dynamic window have attached, and what host memory stands for it. An origin has to
// know: it passes a device address of the target's, and MPI must get the mirror's. Used by src/window alone.
//
// Each rank has a table of its regions in a window of Switchyard's, which it changes under an exclusive lock and others
// read under a shared one, and in a second window a number for each rank, which that rank adds to at all others when
// its table has changed. MPI_Win_attach and MPI_Win_detach return after that. So a rank that knows, by whatever way the
// program synchronises, that memory has been attached or detached has the new number, and reads the table again; while
// the number is the same, it reads its own memory alone.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace swy::window {

struct Region {
    std::uint64_t base, bytes, mirror;  // the addresses are the target's
};
using Regions = std::vector<Region>;

class Directory {
  public:
    static constexpr std::size_t kMostRegions = 1024;  // of one rank

    // Both are collective over the window's communicator. Return MPI's code.
    int open(MPI_Comm comm);
    int close();

    // Change this rank's table. Return MPI's code; MPI_ERR_RMA_ATTACH where the table has no room.
    int add(const Region& region);
    int remove(std::uint64_t base);

    // Finds the regions of a rank of the window; null where it has attached no device memory. Returns MPI's code.
    int find(int target, std::shared_ptr<const Regions>& regions);

    bool has(int rank) const { return rank >= 0 && rank < size_; }

  private:
    struct Known {
        std::uint64_t change = 0;
        std::shared_ptr<const Regions> regions;
    };
    int tell();  // the table and its change
    int read(int target, Regions& regions);
    std::uint64_t changes_of(int target) const;

    int rank_ = 0, size_ = 0;
    MPI_Win tables_ = MPI_WIN_NULL, changes_ = MPI_WIN_NULL;
    std::uint64_t* table_ = nullptr;   // the number of regions, and the regions
    std::uint64_t* change_ = nullptr;  // of each rank
    std::mutex mutex_;                 // of all below, and of the locks of tables_
    Regions own_;
    std::map<int, Known> known_;
};

}  // namespace swy::window
