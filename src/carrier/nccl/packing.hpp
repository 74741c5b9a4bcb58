// Collectives on types that are not contiguous: NCCL moves a packed form of the data, in scratch memory of the device,
// which kernels make before and take apart after. collectives.cpp alone uses this.
#pragma once

#include <array>
#include <vector>

#include "carrier/nccl/launch.hpp"
#include "carrier/staged/operands.hpp"
#include "route/call.hpp"
#include "route/reason.hpp"

namespace swy::carrier::nccl {

// A call in which operands that are not contiguous are replaced by their packed form, as bytes. Not larger than the
// call that it is made of, which it refers to.
class PackedCall {
  public:
    // Is there anything to pack? Only what is moved is: a reduction's types are MPI's own.
    static bool wanted(const Call& call);

    // Adds to the work what is packed and unpacked, and the memory. As prepare().
    Reason make(const Call& call, Work& work);

    const Call& call() const { return call_; }

  private:
    struct Arrays {
        std::vector<int> counts, displs;
        std::vector<MPI_Aint> offsets;
        std::vector<MPI_Datatype> types;
    };
    Reason replace(Operand& operand, Arrays& arrays, const staged::Data& data, std::byte* packed);

    Call call_{};
    std::array<Operand, 2> operands_;
    std::array<Arrays, 2> arrays_;
};

// Before and after NCCL's operations. "" or what went wrong.
std::string pack(const Work& work, device::Lane& lane);
std::string unpack(const Work& work, device::Lane& lane);

}  // namespace swy::carrier::nccl
