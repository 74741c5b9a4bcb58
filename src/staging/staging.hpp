// Host memory in place of the device memory of one call's operands, and the copies between the two: around a blocking
// call (run.cpp), before and after the real request (begin.cpp), or to the end of an epoch (src/window). Used by these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "call/call.hpp"
#include "comm/contribution.hpp"
#include "pack/copies.hpp"
#include "pack/pieces.hpp"
#include "staging/host_mirror.hpp"

namespace swy::staging {

struct Failure {
    int mpi_class = MPI_SUCCESS;
    std::string why;
    std::string where = {};  // the call, and the rank and communicator of one that has them
    std::string text() const { return where.empty() ? why : where + ": " + why; }  // as error::raise() takes it
    explicit operator bool() const { return mpi_class != MPI_SUCCESS; }
};

// Functions that allocate throw std::bad_alloc; query() does not.
class Staging {
  public:
    Staging(CallId call, const Owner& owner, Use use = Use::kAlways) : call_(call), owner_(owner), use_(use) {}
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    // Finds which of the call's operands are on a device, and acquires the host memory. What the call refers to is read
    // now; the real call may refer to it later.
    Failure prepare(const Call& call);

    bool none() const { return mirrors_.empty(); }  // no operand is on a device
    const Operand* operands() const { return operands_.data(); }

    // Copies to host memory, with MPI's progress. kLater: the copy back comes after this call. Then the program's work
    // that is queued where it will write is waited for here, and not again before the copy.
    enum class Back : std::uint8_t { kInThisCall, kLater };
    Failure copy_in(Back back);

    // Called when copy_in() has failed: does this rank make the real call nevertheless, since others wait for it? If
    // so, it tells them. The real call then passes what the memory holds, and to a file nothing.
    bool go_on(comm::Contribution& part, const Failure& failure);

    // Gives the streams of copy_in(Back::kLater) back: the copy back comes much later.
    void rest() { end_copies(); }

    // Copies to the devices, with MPI's progress. `all`: MPI has written all that it may write.
    Failure copy_out(bool all);

    // The same without waiting: after this, whether it failed or not, query() is called until `done`.
    Failure begin_copy_in();  // Back::kLater
    Failure begin_copy_out(bool all);
    Failure query(bool& done, pack::Direction direction = pack::Direction::kToDevice);

  private:
    bool packed_alike(std::size_t operands) const;
    device::Result queue(pack::Direction direction, bool all);
    device::Result queue_in(Back back);
    void end_copies();
    Failure failed(pack::Direction direction, device::Result result) const;
    Failure failed(int mpi_class, const std::string& why) const;

    const CallId call_;
    const Owner owner_;
    const Use use_;
    std::vector<Operand> operands_;
    pack::MemoryRanges places_;
    std::vector<HostMirror> mirrors_;
    std::optional<pack::Copies> copies_;
    bool abandoned_ = false;  // some copies ran past SWITCHYARD_TIMEOUT: the device may still use the memory
};

// For a collective whose real call is complete: the failure, if another rank's data is missing in it.
Failure failure_elsewhere(CallId call, const Owner& owner, const comm::Contribution& part);

}  // namespace swy::staging
