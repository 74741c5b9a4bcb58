// What the three calls have in common: bytes of any number as MPI takes them, the way into and out of the first
// message, and the receiver's memory.
#pragma once

#include <mpi.h>
#include <mpix_switchyard.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "message/header.hpp"
#include "message/sink.hpp"

namespace swy::message {

// `count` elements of `type` for a number of bytes that an int may not hold: the same on all ranks for the same number.
class Extent {
  public:
    explicit Extent(MPI_Count bytes);
    ~Extent();
    Extent(const Extent&) = delete;
    Extent& operator=(const Extent&) = delete;
    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

  private:
    int count_ = 0;
    MPI_Datatype type_ = MPI_BYTE;
};

// What a sender passes. `problem` is "" where it can be sent.
struct Outgoing {
    const void* metadata = nullptr;
    int metadata_bytes = 0;
    const void* payload = nullptr;
    MPI_Count bytes = 0;

    int check(std::string& problem) const;  // MPI's class of error
};

using Whole = std::vector<std::byte>;

// The first message. MPI's code.
int compose(const Outgoing& from, MPI_Comm comm, Header& header, Whole& whole);

// What a receiver passes.
struct Incoming {
    const char* call = nullptr;
    void* metadata = nullptr;
    int max_metadata = 0;
    int* metadata_bytes = nullptr;
    MPIX_Message_allocate_function* allocate = nullptr;
    void* extra_state = nullptr;
    void** payload = nullptr;
    MPI_Count* bytes = nullptr;

    int check(bool receives, std::string& problem) const;  // a root gives
    void nothing() const;                                  // as if an empty message had come
};

// Has the program give memory for a payload, and has other memory in its place where it gives none.
class Room {
  public:
    Room(const Incoming& to, MPI_Count bytes, int where, std::span<const std::byte> metadata);

    bool refused() const { return refused_; }
    void* address() const { return address_; }  // null: nowhere to put it, or nothing to put

  private:
    bool refused_ = false;
    void* address_ = nullptr;
    std::optional<Sink> sink_;
};

// Host memory into memory of the program's, wherever that is. MPI's code.
int copy_out(void* to, std::span<const std::byte> from, MPI_Comm comm);

// The metadata, as much of them as the program has room for. MPI's code.
int deliver_metadata(const Incoming& to, std::span<const std::byte> metadata, MPI_Comm comm);

// What is to be raised when all has come that could: a payload without memory, metadata without room.
int raise_shortage(const Incoming& to, const Room& room, std::size_t metadata, MPI_Comm comm);

}  // namespace swy::message
