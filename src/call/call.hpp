// The description of one MPI call: what a wrapper passes to dispatch::dispatch() and that to a carrier. Wrappers fill
// it in, everything else only reads it (a carrier that substitutes buffers works on a copy of the operands).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "call_ids.hpp"  // generated from the table of calls: enum class CallId

namespace swy {

enum class Access : std::uint8_t {
    kIn,     // MPI reads the buffer
    kOut,    // MPI may write the buffer, wholly or in part
    kInOut,  // both: MPI_Bcast, MPI_Sendrecv_replace
};

// How many blocks of elements an operand has and where they lie. "Ranks" are those of the communicator's group, of the
// remote group on an intercommunicator (MPI 4.0 section 6.2.2: the counts and displacements of vector forms have one
// entry a rank).
enum class Shape : std::uint8_t {
    // Shapes whose data begins where the address points, when the type is a predefined one: begins_at_address() relies
    // on their order.
    kOne,         // count elements of type at address
    kRanks,       // ranks x count elements of type, one block after the other
    kRanksLocal,  // the same with the own group's ranks, on an intercommunicator too (MPI_Reduce_scatter_block)
    kRanksSum,    // sum of counts[0..ranks) elements of type, own group (the send buffer of MPI_Reduce_scatter)
    kRanksOwn,    // counts[own rank] elements of type (the receive buffer of MPI_Reduce_scatter)
    kSources,     // as kRanks, with the in-neighbours of the process topology for ranks: receive buffers
    kTargets,     // the same with the out-neighbours: send buffers
    // Shapes for which displacements must be looked at.
    kRanksVector,    // block r: counts[r] elements of type at address + displs[r] * extent(type)
    kRanksBytes,     // block r: counts[r] elements of types[r] at address + displs[r] bytes (MPI_Alltoallw)
    kSourcesVector,  // as kRanksVector
    kSourcesBytes,   // as kRanksBytes
    kTargetsVector,
    kTargetsBytes,
    kAddress,  // an address whose length the call does not say (MPI_Win_create's is count bytes: kOne with MPI_BYTE)
};

constexpr bool begins_at_address(Shape shape) {
    return shape <= Shape::kTargets;
}

// When the operand is significant at all (MPI 4.0 chapter 6, "significant only at root").
enum class At : std::uint8_t { kAll, kRoot, kNotRoot };

// Of the numbers in an operand's `counts` and `displs`.
enum class Width : std::uint8_t {
    kInt,     // int
    kOffset,  // int counts, MPI_Aint displacements (MPI_Neighbor_alltoallw)
    kLarge,   // MPI_Count counts, MPI_Aint displacements (the large-count forms)
};

// An array of numbers, one for each block, read as the wider of their two types.
template <typename Large>
class Numbers {
  public:
    constexpr Numbers() = default;
    constexpr Numbers(const void* numbers, bool large) : numbers_(numbers), large_(large) {}

    explicit constexpr operator bool() const { return numbers_ != nullptr; }
    constexpr std::size_t bytes_each() const { return large_ ? sizeof(Large) : sizeof(int); }
    template <typename Index>
    Large operator[](Index r) const {
        return large_ ? static_cast<const Large*>(numbers_)[r] : Large{static_cast<const int*>(numbers_)[r]};
    }

  private:
    const void* numbers_ = nullptr;
    bool large_ = false;
};

// Aligned so that its size is a power of two: loops over operands, which host calls have, divide by it.
struct alignas(16) Operand {
    void* address = nullptr;  // as the program passed it, MPI_IN_PLACE and MPI_BOTTOM included
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    Access access = Access::kIn;
    At at = At::kAll;
    Width width = Width::kInt;
    Shape shape = Shape::kOne;
    // As the program passes them. Displacements are extents of the type, or bytes where there are `types`.
    const void* count_array = nullptr;
    const void* displ_array = nullptr;
    const MPI_Datatype* types = nullptr;

    Numbers<MPI_Count> counts() const { return {count_array, width == Width::kLarge}; }
    Numbers<MPI_Aint> displs() const { return {displ_array, width != Width::kInt}; }
};

// Whose error handler is asked when a call fails.
struct Owner {
    enum class Kind : std::uint8_t { kComm, kWin, kFile, kNone } kind = Kind::kNone;
    union {
        MPI_Comm comm;
        MPI_Win win;
        MPI_File file;
    };
    Owner() : comm(MPI_COMM_NULL) {}
    explicit Owner(MPI_Comm c) : kind(Kind::kComm), comm(c) {}
    explicit Owner(MPI_Win w) : kind(Kind::kWin), win(w) {}
    explicit Owner(MPI_File f) : kind(Kind::kFile), file(f) {}
};

// A large-count form (MPI_Bcast_c) and its form with int counts may meet in one collective: the latter stands for both.
// The table of calls puts the large-count form right behind it.
constexpr CallId plain(CallId id) {
    return name(id).ends_with("_c") ? static_cast<CallId>(static_cast<std::uint16_t>(id) - 1) : id;
}

// Tells whether the call makes a persistent request.
constexpr bool persistent(CallId id) {
    return name(plain(id)).ends_with("_init");
}

// By what MPI matches messages, and where the results go: of point-to-point calls and probes. Arguments that a call
// does not have keep these defaults.
struct Matching {
    int dest = MPI_PROC_NULL, send_tag = MPI_ANY_TAG;
    int source = MPI_PROC_NULL, receive_tag = MPI_ANY_TAG;
    // Never MPI_STATUS_IGNORE in a call that has a status: the wrapper passes its own, which `real` fills in too.
    MPI_Status* status = MPI_STATUS_IGNORE;
    int* flag = nullptr;
    MPI_Message* message = nullptr;
    MPI_Request* request = nullptr;
    // Of a probe: the wrapper has made the real call and found a message of the envelope's length. `status`, `flag` and
    // `message` say which; a matched probe must not be made again.
    bool found = false;
    // Of a message of several buffers: each buffer, with equal counts and types. The call's operand is all of them
    // together.
    std::span<const Operand> buffers = {};
};

// What a one-sided call names at its target. The real call is made with what stands here then.
struct Target {
    MPI_Aint disp;
    MPI_Count count;
    MPI_Datatype type;
};

// The window that a call makes.
struct NewWindow {
    MPI_Win* win;
    MPI_Aint disp_unit;
    MPI_Info info;
};

// Where a call reads or writes a file. Several real calls may be made of it, each with what stands here then.
struct FileAccess {
    MPI_Offset offset;  // in elementary types of the file's view, of calls that have one
    MPI_Status* status;
};

struct Call {
    CallId id;
    Owner owner;
    std::span<const Operand> operands;
    MPI_Op op = MPI_OP_NULL;
    int root = MPI_PROC_NULL;            // root, or the peer of a point-to-point call
    const Matching* matching = nullptr;  // of matched calls
    MPI_Request* request = nullptr;      // of other calls that make one
    const NewWindow* made = nullptr;     // of calls that make a window
    Target* target = nullptr;            // of one-sided calls
    FileAccess* file = nullptr;          // of calls that may be made in pieces
};

// The real MPI function behind a call. It is called with the operands to use in place of the program's (same number,
// same order; only address, count, type, types and displ_array are used, and all but the address only where the
// call has arguments of its own for that operand). Does not own what it refers to.
class Real {
  public:
    template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Real>)
        Real(F&& function)  // NOLINT(bugprone-forwarding-reference-overload): constrained above
        : object_(const_cast<void*>(static_cast<const void*>(&function))),
          call_([](void* object, const Operand* operands) -> int {
              return (*static_cast<std::remove_reference_t<F>*>(object))(operands);
          }) {}

    int operator()(const Operand* operands) const { return call_(object_, operands); }
    int operator()(const Call& call) const { return call_(object_, call.operands.data()); }

  private:
    void* object_;
    int (*call_)(void*, const Operand*);
};

}  // namespace swy
