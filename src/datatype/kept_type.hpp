// A datatype of the program that is needed after the call that names it: the program may free it meanwhile. Persistent
// and non-blocking calls hold these.
#pragma once

#include <mpi.h>

namespace swy::datatype {

class KeptType {
  public:
    explicit KeptType(MPI_Datatype type);
    ~KeptType();
    KeptType(KeptType&& other) noexcept;
    KeptType(const KeptType&) = delete;
    KeptType& operator=(const KeptType&) = delete;

    // A committed type with the same data. The program's own type where none can be made.
    MPI_Datatype get() const { return type_; }

  private:
    MPI_Datatype type_;
    bool own_ = false;
};

}  // namespace swy::datatype
