// The reentrancy guard: how deep this thread is inside real MPI calls that were made for the program. Open MPI calls
// itself through the public symbols (MPI-IO calls MPI_Bcast and MPI_Allreduce), and callbacks of the program run inside
// MPI: no agreement may be made on any of these calls.
#pragma once

namespace swy::call {

// Initial-exec: the library is in the initial set of objects (preloaded or linked), and the access is then one
// instruction.
inline constinit thread_local int depth __attribute__((tls_model("initial-exec"))) = 0;

// True while this thread is inside a real MPI call made for the program, so that calls which MPI makes through its own
// symbols are not routed again.
inline bool inside() {
    return depth != 0;
}

class Inside {
  public:
    Inside() { ++depth; }
    ~Inside() { --depth; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
};

// In effect while an error goes through the program's handler, be it an error of Switchyard's own or one of a call
// inside of which MPI calls none of its own functions: the handler's calls are like any others, and other ranks may
// make the matching ones elsewhere.
class Outside {
  public:
    Outside() : before_(depth) { depth = 0; }
    ~Outside() { depth = before_; }
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

  private:
    const int before_;
};

}  // namespace swy::call
