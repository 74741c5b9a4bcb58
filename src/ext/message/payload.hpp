// What the three calls have in common: byte counts of any size as MPI counts, packing and unpacking of the first
// message, and the receiver's memory.
#pragma once

#include <mpi.h>
#include <mpix_switchyard.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "call/counted.hpp"
#include "ext/message/header.hpp"
#include "ext/message/sink.hpp"

// The library's own entry points, by names that no other library of the program can take: the three calls are built on
// top of the MPI that this library provides.
#define SWY_OWN_WRAPPER(name) __attribute__((visibility("hidden"))) extern decltype(name) swy_##name;
extern "C" {
SWY_OWN_WRAPPER(MPI_Bcast)
SWY_OWN_WRAPPER(MPI_Improbe)
SWY_OWN_WRAPPER(MPI_Isend)
SWY_OWN_WRAPPER(MPI_Mrecv)
SWY_OWN_WRAPPER(MPI_Pack)
SWY_OWN_WRAPPER(MPI_Unpack)
SWY_OWN_WRAPPER(MPI_Wait)
}
#undef SWY_OWN_WRAPPER

namespace swy::message {

// A number of bytes that an int may not hold, as count and type: the same on all ranks for the same number.
struct Extent : call::Counted {
    explicit Extent(MPI_Count bytes) : Counted(bytes, MPI_BYTE) {}
};

inline constexpr const char* kSendMessage = "MPIX_Send_message";
inline constexpr const char* kRecvMessage = "MPIX_Recv_message";
inline constexpr const char* kBcastMessage = "MPIX_Bcast_message";

// Raises an error of one of these calls, whose text names the rank and the communicator too.
int raise(const char* call, MPI_Comm comm, int mpi_class, const std::string& why);

// A sender's arguments.
struct Outgoing {
    const void* metadata = nullptr;
    int metadata_bytes = 0;
    const void* payload = nullptr;
    MPI_Count bytes = 0;

    int check(std::string& problem) const;  // MPI's class of error; `problem` is "" where the message can be sent
};

using Whole = std::vector<std::byte>;

// Makes the first message. Returns MPI's code.
int compose(const Outgoing& from, MPI_Comm comm, Header& header, Whole& whole);

// A receiver's arguments.
struct Incoming {
    const char* call = nullptr;
    void* metadata = nullptr;
    int max_metadata = 0;
    int* metadata_bytes = nullptr;
    MPIX_Message_allocate_function* allocate = nullptr;
    void* extra_state = nullptr;
    void** payload = nullptr;
    MPI_Count* bytes = nullptr;

    int check(bool receives, std::string& problem) const;  // `receives`: false on the root of a broadcast
    void nothing() const;                                  // sets the results of an empty message
};

// Asks the program for memory for a payload; where it gives none, a Sink takes its place.
class Room {
  public:
    Room(const Incoming& to, MPI_Count bytes, int where, std::span<const std::byte> metadata);

    bool refused() const { return refused_; }
    void* address() const { return address_; }  // null: there is nowhere to put it, or nothing to put

  private:
    bool refused_ = false;
    void* address_ = nullptr;
    std::optional<Sink> sink_;
};

// Copies host memory into memory of the program, wherever that is. Returns MPI's code.
int copy_out(void* to, std::span<const std::byte> from, MPI_Comm comm);

// Copies as much of the metadata as the program has room for. Returns MPI's code.
int deliver_metadata(const Incoming& to, std::span<const std::byte> metadata, MPI_Comm comm);

// Raises the error, if any, once everything that could be has been received: a payload without memory, or metadata
// without room.
int raise_shortage(const Incoming& to, const Room& room, std::size_t metadata, MPI_Comm comm);

// Locks that keep threads from separating a message's two parts: one for each communicator. Several may share one,
// which only costs time: the holder waits for nothing but a sender that is between the two parts.
class Locks {
  public:
    std::mutex& of(MPI_Comm comm) {
        const auto address = reinterpret_cast<std::uintptr_t>(comm);
        return locks_[(address >> 6) % locks_.size()];
    }

  private:
    std::array<std::mutex, 61> locks_{};
};

}  // namespace swy::message
