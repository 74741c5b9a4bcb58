// The staged carrier: device operands are replaced by host memory around the real MPI call. It takes every call whose
// buffers are described by operands; it decides nothing, agrees on nothing, and works on one rank alone.
//
// No rank leaves a collective without its real call, or its next one would match the others' present one: a copy to the
// host that fails, or does not end within SWITCHYARD_TIMEOUT, is an error after that call, here and on the other ranks,
// which have worked on whatever the host memory held (comm/contribution.hpp). What is on the devices stays as it was.
#pragma once

#include <functional>
#include <memory>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "comm/contribution.hpp"
#include "comm/state.hpp"
#include "comm/where.hpp"
#include "progress/operation.hpp"

namespace swy::staging {

// Copies what MPI may read from device to host, calls `real` with the copies, copies back what MPI may have written;
// leaves every byte outside the operands' data untouched, on the device too. Host operands are passed as they are.
// Returns MPI's code (or that of an error raised for a CUDA failure, through the owner's handler, naming the call and
// the CUDA error). `part` is this rank's contribution to a collective, and empty for other calls.
int run(const Call& call, Real real, comm::Contribution part = {});

// Is it an access that all ranks of a file make?
constexpr bool made_together(const Call& call) {
    return call.file != nullptr && name(plain(call.id)).ends_with("_all");
}

// Makes such a call: a rank where it is `staged` may need several real calls, and then all make as many.
int run_together(const Call& call, Real real, bool staged);

// For a call that leaves a request in *call.request, and has device operands or an average to make: copies what MPI may
// read from device to host, makes the real call with the copies, and leaves a request of Switchyard's, which is
// complete when the results are on the device. A persistent call's copies are made at each start, its real call once.
// Called where the engine runs, and not under its lock. The completion call raises the error of a real request that
// fails. `what` is a collective's id among the ranks, where they tell each other of failures. `reason` and `bytes` are
// for the report. `begun` receives the operation of a call that is no persistent one. Throws std::bad_alloc.
int begin(const Call& call, Real real, comm::OperationId what, Reason reason, std::size_t bytes,
          std::shared_ptr<progress::Operation>* begun = nullptr);

// A collective whose real call is made later than the program's: as begin(), except that the owner makes every step,
// under the engine's lock, until the operation is done. `make` makes the real call with the given operands, also where
// this rank has none on a device. `call` must stay valid until then.
class Deferred : public progress::Operation {
  public:
    using progress::Operation::Operation;
    virtual bool called() const = 0;  // the real call has been made, or never will be
    std::string describe() const final {
        return comm::where(call(), comm()) + ": its staging through host memory has not ended";
    }
};
using Make = std::function<int(const Operand* operands, MPI_Request* request)>;
std::shared_ptr<Deferred> defer(const Call& call, Make make, comm::Contribution part, Reason reason, std::size_t bytes);

// For a persistent call most of whose starts another carrier takes: makes the real call now, on host memory that costs
// little until it is used. Returns nullptr with MPI's code in `code`, of an error that has been raised. Throws
// std::bad_alloc.
struct PersistentStaging;
std::shared_ptr<PersistentStaging> stand_by(const Call& call, Real real, std::size_t bytes, int& code);
// Makes one start of it, which its owner steps as with defer(); under the engine's lock.
std::shared_ptr<Deferred> start(const std::shared_ptr<PersistentStaging>& persistent, comm::Contribution part,
                                Reason reason);

// Is it a collective of a communicator's ranks?
constexpr bool collective(CallId id) {
    return treatment(blocking_form(id)) == Treatment::kRouted;
}

// Does `operand`, one of the call's, have data on a device here? False where MPI ignores the operand on this rank
// (MPI_IN_PLACE, not significant, no elements, MPI_PROC_NULL). coll::on_device() asks this for every operand that is
// not simply a block of a predefined type.
bool touches_device(const Call& call, const Operand& operand);

// Has the operand data, all of it in host memory?
bool touches_host_alone(const Call& call, const Operand& operand);

// Returns the bytes of data in an operand of any shape.
std::size_t bytes_of(const Call& call, const Operand& operand);

}  // namespace swy::staging
