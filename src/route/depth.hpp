// The depth guard: how deep this thread is inside real MPI calls that were made for the program. Open MPI calls itself
// through the public symbols (MPI-IO calls MPI_Bcast and MPI_Allreduce), and callbacks of the program run inside MPI:
// none of these calls may be agreed on.
#pragma once

namespace swy::route {

// Initial-exec: the library is in the initial set of objects (preloaded or linked), and the access is then one
// instruction.
extern constinit thread_local int depth __attribute__((tls_model("initial-exec")));

class Inside {
  public:
    Inside() { ++depth; }
    ~Inside() { --depth; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
};

// While an error goes through the program's handler, Switchyard's own or MPI's of a call inside of which MPI calls none
// of its functions: the handler's calls are as any others, which other ranks may make elsewhere.
class Outside {
  public:
    Outside() : before_(depth) { depth = 0; }
    ~Outside() { depth = before_; }
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

  private:
    const int before_;
};

}  // namespace swy::route
