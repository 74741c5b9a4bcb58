// The memory of one end of a message: drawn anew for each, filled with noise, and compared byte for byte with what
// arithmetic says it holds afterwards. Test programs only.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "layout.hpp"

namespace p2p_test {

using Bytes = std::vector<std::byte>;
Bytes noise(std::uint64_t seed, std::size_t bytes);

// The GPUs of this process; none without a driver, or where it has no device.
struct Gpus {
    int devices = 0;
    int home = 0;            // the rank's own
    void take_home() const;  // makes it the calling thread's current device
};
Gpus find_gpus(int rank);

// Room for `elements` of `base`, or a little more, so that it is a whole number of elements of the type.
class Buffer {
  public:
    enum class End { kSent, kReceived };
    // With `plain`, mostly one run of the own device's memory, which is what NCCL carries. `missing`: how many elements
    // more the message has that it is to receive.
    Buffer(Dice& dice, const Gpus& gpus, End end, MPI_Datatype base, int elements, bool plain = false, int missing = 0);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void* address() const { return address_; }
    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }
    int unit() const { return unit_; }
    int room() const { return count_ * unit_; }  // in elements of the base type

    void put(const Bytes& data);     // writes the program's data
    void expect(const Bytes& data);  // as a message would: the memory is not touched
    void forget();                   // whatever a message that is too long has left counts as expected
    std::string difference() const;  // "" where the memory is as expected, all of it
    const std::string& what() const { return what_; }

  private:
    struct Piece {
        Bytes image;
        gpu::Memory memory;
    };
    struct Place {
        std::size_t piece, offset;
    };
    void one_block(Dice& dice, const Gpus& gpus, End end, MPI_Datatype base, int elements, bool plain);
    void many_blocks(Dice& dice, const Gpus& gpus, MPI_Datatype base, int elements);
    Place place(int element) const;

    std::vector<Piece> pieces_;
    std::optional<Layout> layout_;  // of one block
    std::vector<int> first_;        // of many blocks: the first element of each
    void* address_ = nullptr;
    std::size_t origin_ = 0;  // of one block: the offset of the address
    std::size_t beyond_ = 0;  // bytes behind each piece's guard
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    int count_ = 0, unit_ = 1, bytes_ = 1;
    std::string what_;
};

}  // namespace p2p_test
