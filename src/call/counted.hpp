// A count and a type for MPI calls whose counts are ints, whatever the number of elements.
#pragma once

#include <mpi.h>

#include <climits>

#include "real.hpp"

namespace swy::call {

// Up to INT_MAX elements are passed as they are. More become one element of a derived type, which MPI keeps until the
// calls that use it are done: this object need only live while the call is made.
class Counted {
  public:
    Counted(MPI_Count count, MPI_Datatype type) : count_(static_cast<int>(count)), type_(type) {
        if (count <= INT_MAX)
            return;
        constexpr MPI_Count kChunk = MPI_Count{1} << 30;
        MPI_Aint lb = 0;
        MPI_Aint extent = 0;
        real::Type_get_extent(type, &lb, &extent);
        MPI_Datatype chunk = MPI_DATATYPE_NULL;
        MPI_Datatype chunks = MPI_DATATYPE_NULL;
        real::Type_contiguous(static_cast<int>(kChunk), type, &chunk);
        real::Type_contiguous(static_cast<int>(count / kChunk), chunk, &chunks);
        const int lengths[] = {1, static_cast<int>(count % kChunk)};
        const MPI_Aint at[] = {0, static_cast<MPI_Aint>(count / kChunk * kChunk) * extent};
        const MPI_Datatype types[] = {chunks, type};
        real::Type_create_struct(2, lengths, at, types, &made_);
        real::Type_commit(&made_);
        real::Type_free(&chunks);
        real::Type_free(&chunk);
        count_ = 1;
        type_ = made_;
    }
    ~Counted() {
        if (made_ != MPI_DATATYPE_NULL)
            real::Type_free(&made_);
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

  private:
    int count_;
    MPI_Datatype type_;
    MPI_Datatype made_ = MPI_DATATYPE_NULL;
};

}  // namespace swy::call
