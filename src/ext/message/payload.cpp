#include "ext/message/payload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/state.hpp"
#include "comm/where.hpp"
#include "device/device.hpp"
#include "error/error.hpp"
#include "real.hpp"

namespace swy::message {
namespace {

int where_is(const void* address) {
    const device::Kind kind = device::locate(address).kind;
    if (kind == device::Kind::kManaged)
        return MPIX_MESSAGE_MANAGED;
    return kind == device::Kind::kDevice ? MPIX_MESSAGE_DEVICE : MPIX_MESSAGE_HOST;
}

int copy_in(std::span<std::byte> to, const void* from, MPI_Comm comm) {
    if (to.empty())
        return MPI_SUCCESS;
    if (!device::on_device(from)) {
        std::memcpy(to.data(), from, to.size());
        return MPI_SUCCESS;
    }
    int at = 0;
    const int bytes = static_cast<int>(to.size());
    return swy_MPI_Pack(from, bytes, MPI_BYTE, to.data(), bytes, &at, comm);
}

}  // namespace

int Outgoing::check(std::string& problem) const {
    if (metadata_bytes < 0 || metadata_bytes > MPIX_MESSAGE_METADATA_MAX) {
        problem = fmt::format("{} bytes of metadata: from 0 to {} can be sent (MPIX_MESSAGE_METADATA_MAX)",
                              metadata_bytes, MPIX_MESSAGE_METADATA_MAX);
        return MPI_ERR_COUNT;
    }
    if (bytes < 0) {
        problem = fmt::format("a payload of {} bytes", static_cast<long long>(bytes));
        return MPI_ERR_COUNT;
    }
    if ((metadata_bytes > 0 && metadata == nullptr) || (bytes > 0 && payload == nullptr)) {
        problem =
            fmt::format("the address of the {} is NULL", bytes > 0 && payload == nullptr ? "payload" : "metadata");
        return MPI_ERR_BUFFER;
    }
    return MPI_SUCCESS;
}

int compose(const Outgoing& from, MPI_Comm comm, Header& header, Whole& whole) {
    const auto metadata = static_cast<std::size_t>(from.metadata_bytes);
    const auto bytes = static_cast<std::size_t>(from.bytes);
    header.metadata = static_cast<std::uint32_t>(metadata);
    header.bytes = bytes;
    header.where = static_cast<std::uint8_t>(bytes > 0 ? where_is(from.payload) : MPIX_MESSAGE_HOST);
    header.kind = bytes <= kWholeBytes - kHeaderBytes - metadata ? Kind::kWithin : Kind::kFollows;
    whole.resize(std::max(whole.size(), header.whole()));
    const std::span<std::byte> all(whole);
    write(header, all.first<kHeaderBytes>());
    const int rc = copy_in(all.subspan(kHeaderBytes, metadata), from.metadata, comm);
    return rc != MPI_SUCCESS || header.kind != Kind::kWithin
               ? rc
               : copy_in(all.subspan(kHeaderBytes + metadata, bytes), from.payload, comm);
}

int Incoming::check(bool receives, std::string& problem) const {
    if (metadata_bytes == nullptr || payload == nullptr || bytes == nullptr) {
        problem = "an address for what the message turns out to be is NULL";
        return MPI_ERR_ARG;
    }
    if (receives && (max_metadata < 0 || (max_metadata > 0 && metadata == nullptr))) {
        problem = fmt::format("room for {} bytes of metadata{}", max_metadata, max_metadata > 0 ? " at NULL" : "");
        return max_metadata < 0 ? MPI_ERR_COUNT : MPI_ERR_BUFFER;
    }
    return MPI_SUCCESS;
}

void Incoming::nothing() const {
    *metadata_bytes = 0;
    *payload = nullptr;
    *bytes = 0;
}

Room::Room(const Incoming& to, MPI_Count bytes, int where, std::span<const std::byte> metadata) {
    *to.bytes = bytes;
    *to.payload = nullptr;
    if (bytes == 0)
        return;
    if (to.allocate != nullptr)
        *to.payload = to.allocate(bytes, where, metadata.data(), static_cast<int>(metadata.size()), to.extra_state);
    address_ = *to.payload;
    if (address_ != nullptr)
        return;
    refused_ = true;
    address_ = sink_.emplace(static_cast<std::size_t>(bytes)).data();
}

int copy_out(void* to, std::span<const std::byte> from, MPI_Comm comm) {
    if (from.empty())
        return MPI_SUCCESS;
    if (!device::on_device(to)) {
        std::memcpy(to, from.data(), from.size());
        return MPI_SUCCESS;
    }
    int at = 0;
    const int bytes = static_cast<int>(from.size());
    return swy_MPI_Unpack(from.data(), bytes, &at, to, bytes, MPI_BYTE, comm);
}

int deliver_metadata(const Incoming& to, std::span<const std::byte> metadata, MPI_Comm comm) {
    *to.metadata_bytes = static_cast<int>(metadata.size());
    return copy_out(to.metadata, metadata.first(std::min(metadata.size(), static_cast<std::size_t>(to.max_metadata))),
                    comm);
}

int raise(const char* call, MPI_Comm comm, int mpi_class, const std::string& why) {
    if (comm != MPI_COMM_NULL)
        comm::of(comm);  // only one that it knows is named
    return error::raise(Owner(comm), mpi_class, comm::where(call, comm) + ": " + why);
}

int raise_shortage(const Incoming& to, const Room& room, std::size_t metadata, MPI_Comm comm) {
    if (room.refused())
        return raise(to.call, comm, MPI_ERR_NO_MEM,
                     fmt::format("the program's function gave no memory for a payload of {} bytes, which is dropped",
                                 static_cast<long long>(*to.bytes)));
    if (metadata > static_cast<std::size_t>(to.max_metadata))
        return raise(to.call, comm, MPI_ERR_TRUNCATE,
                     fmt::format("{} bytes of metadata have come, and there is room for {}; the payload is whole",
                                 metadata, to.max_metadata));
    return MPI_SUCCESS;
}

}  // namespace swy::message
