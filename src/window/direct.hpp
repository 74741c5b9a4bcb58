// A window over device memory that every one of its ranks has mapped (device/mapped.hpp): the origin reads and writes
// the target's device memory itself, so there is one copy of the window, and MPI's unified memory model holds (MPI 4.0
// section 12.4). MPI's own window, of a few bytes that the ranks share, synchronises them. Used by src/window alone.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "call/call.hpp"
#include "device/mapped.hpp"
#include "pack/payload.hpp"
#include "staging/staging.hpp"

namespace swy::window {

class Direct {
  public:
    // Makes the window of an MPI_Win_create whose ranks are on one host and have device memory or none, all of which
    // can be mapped. Collective over the communicator. Returns null where that is not so, or with MPI's code where the
    // call has failed. Throws std::bad_alloc.
    static std::shared_ptr<Direct> make(const Call& call, int& code);

    // Makes a one-sided call, which is complete at both ends when this returns. Returns MPI's code. Throws
    // std::bad_alloc.
    int perform(const Call& call);

    // Waits for what the program has queued on this rank's window, as SWITCHYARD_SYNC says: before others may access
    // it.
    staging::Failure await_program() const;

    // What MPI_Win_get_attr tells; false where MPI's own answer is right.
    bool attribute(int keyval, void*& value);

    // Unmaps the others' memory, and waits until they have unmapped this rank's. Collective.
    void close();

    ~Direct() { close(); }
    Direct(const Direct&) = delete;
    Direct& operator=(const Direct&) = delete;

  private:
    // A rank's window: where it is in this process.
    struct Place {
        std::byte* data = nullptr;
        MPI_Aint bytes = 0, disp_unit = 1;
    };
    struct Exposed;  // what a rank tells the others

    Direct() = default;
    bool map(device::Context context, const std::vector<Exposed>& all);
    std::string move(const Call& call, const pack::Payload& target);
    std::string combine(const Call& call, const pack::Payload& target);

    MPI_Comm comm_ = MPI_COMM_NULL;     // of the window's ranks, private
    MPI_Win exclusive_ = MPI_WIN_NULL;  // its locks keep accumulates to one rank apart
    std::mutex accumulates_;            // of this process
    int rank_ = 0;
    std::vector<Place> places_;  // by rank
    std::vector<device::Mapping> maps_;
    Place own_;
    int own_unit_ = 1;
};

}  // namespace swy::window
