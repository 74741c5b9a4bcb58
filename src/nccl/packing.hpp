// Collectives on types that are not contiguous: NCCL moves a packed form of the data, in scratch memory on the device,
// which kernels pack before and unpack after. Only collectives.cpp uses this.
#pragma once

#include <array>
#include <vector>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "nccl/launch.hpp"
#include "pack/operands.hpp"

namespace swy::nccl {

// A copy of a call in which operands that are not contiguous are replaced by their packed form, as bytes. It refers to
// the original call and must not outlive it.
class PackedCall {
  public:
    // Tells whether there is anything to pack. Reductions are never packed: their datatypes are predefined.
    static bool wanted(const Call& call);

    // Adds to the work what is packed and unpacked, and the memory for it. Result as that of prepare().
    Reason make(const Call& call, Work& work);

    const Call& call() const { return call_; }

  private:
    struct Arrays {
        std::vector<MPI_Count> counts;
        std::vector<MPI_Aint> displs;
        std::vector<MPI_Datatype> types;
    };
    void replace(Operand& operand, Arrays& arrays, const pack::Data& data, std::byte* packed);

    Call call_{};
    std::array<Operand, 2> operands_;
    std::array<Arrays, 2> arrays_;
};

// Queue the packing before NCCL's operations and the unpacking after them. Return "" or the error.
std::string pack(const Work& work, device::Stream& device_stream);
std::string unpack(const Work& work, device::Stream& device_stream);

}  // namespace swy::nccl
