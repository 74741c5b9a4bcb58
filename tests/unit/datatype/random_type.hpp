// Random MPI datatypes, each with the list of bytes that the standard's text gives it: the reference for layouts. Tests
// only.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <random>
#include <vector>

namespace model {

// A datatype and its type map, written out: where[i] is the displacement of the i-th byte of data (MPI 3.1
// section 4.1).
class Type {
  public:
    explicit Type(MPI_Datatype predefined);
    ~Type();
    Type(Type&& other) noexcept;
    Type& operator=(Type&& other) noexcept;

    MPI_Aint extent() const;

    MPI_Datatype handle = MPI_DATATYPE_NULL;
    std::vector<MPI_Aint> where;
    bool owned = false;  // to be freed
};

class Maker {
  public:
    explicit Maker(unsigned seed, std::size_t most_bytes = 4096) : random_(seed), most_bytes_(most_bytes) {}

    // A type of `depth` nested constructors, committed.
    Type make(int depth);
    int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  private:
    Type predefined();
    Type dup(const Type& old);
    Type resized(const Type& old);
    Type contiguous(const Type& old);
    Type vector(const Type& old, bool bytes);
    Type indexed(const Type& old, bool bytes, bool block);
    Type structure(const Type& old, int depth);
    Type subarray(const Type& old);
    Type darray(const Type& old);
    Type derive(const Type& old, int depth);

    std::mt19937 random_;
    std::size_t most_bytes_;
};

}  // namespace model
