// The buffers of one call, each twice: on host memory for the reference, and in memory of some kind for the call under
// test. Test program only.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "views.hpp"

namespace staged_test {

enum Side { kReference = 0, kTested = 1 };

struct Segment {  // `count` elements of `view`, `offset` bytes behind the buffer's address
    const View* view;
    MPI_Aint offset;
    MPI_Aint count;
};

// Memory for segments, with guard bytes around, filled alike on both sides. Without any data: an address nobody may
// touch.
class Buffer {
  public:
    Buffer(Dice& dice, const std::vector<Segment>& segments);

    void* at(Side side) const { return side == kReference ? host_address_ : tested_address_; }
    bool same() const { return host_ == tested_.read(); }
    // For data of which MPI says only what its first `bytes` become.
    bool same_start(std::size_t bytes) const;
    // For data of which MPI says nothing: on both sides every byte around it, and in its gaps, is as before. `count`
    // elements of `view` at the buffer's address are the data.
    bool untouched_around(const View& view, int count) const;
    bool untouched() const { return host_ == before_; }
    std::string difference() const;

  private:
    std::vector<std::byte> before_, host_;
    gpu::Memory tested_;
    void *host_address_ = nullptr, *tested_address_ = nullptr;
};

// One element whose data lies in several memories of different kinds: absolute addresses, to be used with MPI_BOTTOM.
class Scattered {
  public:
    Scattered(Dice& dice, int ints);
    ~Scattered();
    Scattered(const Scattered&) = delete;
    Scattered& operator=(const Scattered&) = delete;

    MPI_Datatype type(Side side) const { return types_[side]; }
    bool same() const;

  private:
    std::vector<std::vector<std::byte>> host_;
    std::vector<gpu::Memory> tested_;
    MPI_Datatype types_[2];
};

gpu::Kind draw_kind(Dice& dice);
int devices();

}  // namespace staged_test
