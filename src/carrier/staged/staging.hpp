// Host memory in place of the device memory of one call's operands, and the copies between the two: around a blocking
// call (run.cpp), before and after what a request stands for (begin.cpp). Used by carrier/staged/ alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carrier/staged/copies.hpp"
#include "carrier/staged/pieces.hpp"
#include "carrier/staged/shadow.hpp"
#include "route/call.hpp"

namespace swy::carrier::staged {

struct Failure {
    int mpi_class = MPI_SUCCESS;
    std::string text;  // of an error: what error::raise() takes
    explicit operator bool() const { return mpi_class != MPI_SUCCESS; }
};

// The functions that make something throw std::bad_alloc, all but query().
class Staging {
  public:
    // Seldom: the memory is page-locked only where it is small, and costs nothing before its first use.
    enum class Use : std::uint8_t { kAlways, kSeldom };
    explicit Staging(CallId call, Use use = Use::kAlways) : call_(call), use_(use) {}
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    // Finds what of the call's operands is on a device, and makes the memory. What the call refers to is read now; the
    // real call may refer to it later.
    Failure prepare(const Call& call);

    bool none() const { return shadows_.empty(); }  // on a device
    const Operand* operands() const { return operands_.data(); }

    // To host memory, with MPI's progress. The copy back may come later than in this call: then the program's work that
    // is queued where it will write is waited for here, and not again before the copy.
    enum class Back : std::uint8_t { kInThisCall, kLater };
    Failure copy_in(Back back);

    // To the devices, with MPI's progress. `all`: MPI has written all that it may write.
    Failure copy_out(bool all);

    // The same without waiting: after this, whether it failed or not, query() until `done`.
    Failure begin_copy_in();  // Back::kLater
    Failure begin_copy_out(bool all);
    Failure query(bool& done, Direction direction = Direction::kToDevice);

    std::size_t bytes() const { return copies_ ? copies_->bytes() : 0; }  // copied in this call

  private:
    bool packed_alike(std::size_t operands) const;
    device::Result queue(Direction direction, bool all);
    device::Result queue_in(Back back);
    Failure failed(Direction direction, device::Result result) const;

    const CallId call_;
    const Use use_;
    std::vector<Operand> operands_;
    Places places_;
    std::vector<Shadow> shadows_;
    std::optional<Copies> copies_;
};

}  // namespace swy::carrier::staged
