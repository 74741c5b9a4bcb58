// Datatypes that all hold the same number of MPI_INTs, in memory in many ways. Test program only.
#pragma once

#include <mpi.h>

#include <random>
#include <vector>

namespace staged_test {

class Dice {
  public:
    explicit Dice(unsigned seed) : random_(seed) {}
    int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
    bool one_in(int n) { return below(n) == 0; }

  private:
    std::mt19937 random_;
};

// One element of a type: `ints` MPI_INTs, the bytes of which lie in [low, high).
class View {
  public:
    explicit View(MPI_Datatype type, bool owned);
    ~View();
    View(View&& other) noexcept;
    View& operator=(View&&) = delete;

    MPI_Datatype type;
    MPI_Aint low = 0, high = 0, extent = 0;

  private:
    bool owned_;
};

// A type of which up to `most` elements can lie one extent apart without overlap. For what is sent, kSent: Open
// MPI 4.1.4 sends interleaved elements (columns of a matrix) in a wrong order once in a while, so they are only
// received.
inline constexpr int kSent = 1 << 30;
View make_view(Dice& dice, int ints, int most);

// All data adjacent and in device memory, as NCCL takes it: the option --plain of the programs.
inline bool plain_only = false;

}  // namespace staged_test
