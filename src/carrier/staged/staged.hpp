// The staged carrier: device operands are replaced by host memory around the real MPI call. Takes every call whose
// buffers are described by operands; decides nothing, agrees nothing, works on one rank alone.
#pragma once

#include <functional>
#include <memory>

#include "request/operation.hpp"
#include "route/call.hpp"
#include "route/reason.hpp"

namespace swy::carrier::staged {

// Copies what MPI may read from device to host, calls `real` with the copies, copies back what MPI may have written;
// leaves every byte outside the operands' data untouched, on the device too. Host operands are passed as they are.
// Returns MPI's code (or that of an error raised for a CUDA failure, through the owner's handler, naming the call and
// the CUDA error). `bytes` (may be null) receives how many bytes were copied between device and host in both
// directions.
int run(const Call& call, Real real, std::size_t* bytes = nullptr);

// A call that leaves a request in *call.request, and has device operands or an average to make: copies what MPI may
// read from device to host, makes the real call with the copies, and leaves a request of ours, which is done when the
// results are on the device. A persistent call's copies are made at each start, its real call once. Where the engine
// runs, and not under its lock. What MPI says of the real request, when it fails, is raised by the completion call.
// `reason` and `bytes` are for the report. Throws std::bad_alloc.
int begin(const Call& call, Real real, Reason reason, std::size_t bytes);

// A collective that is made later than the program has made it: as begin(), but that every step is left to the owner,
// who steps it until it is done, under the engine's lock. `make` makes the real call with the given operands, where
// this rank has none on a device too. `call` is referred to until then.
class Deferred : public request::Operation {
  public:
    using request::Operation::Operation;
    virtual bool called() const = 0;  // the real call has been made, or never will be
};
using Make = std::function<int(const Operand* operands, MPI_Request* request)>;
std::shared_ptr<Deferred> defer(const Call& call, Make make, Reason reason, std::size_t bytes);

// A persistent call most of whose starts another carrier takes: the real call is made now, on host memory that costs
// little until it is used. nullptr with MPI's code, of an error that has been raised. Throws std::bad_alloc.
struct Standing;
std::shared_ptr<Standing> stand_by(const Call& call, Real real, std::size_t bytes, int& code);
// One start of it, left to the owner as with defer(); under the engine's lock.
std::shared_ptr<Deferred> start(const std::shared_ptr<Standing>& standing, Reason reason);

// Does `operand`, one of the call's, have data on a device here? False where MPI ignores the operand on this rank
// (MPI_IN_PLACE, not significant, no elements, MPI_PROC_NULL). The router asks this for every operand that is not
// simply a block of a predefined type.
bool touches_device(const Call& call, const Operand& operand);

// Has it data, and all of that in host memory?
bool touches_host_alone(const Call& call, const Operand& operand);

// Bytes of data in an operand of any shape.
std::size_t bytes_of(const Call& call, const Operand& operand);

}  // namespace swy::carrier::staged
