// The rendezvous of ranks. Every process that makes unique ids or communicators runs one service, a thread with one
// listening socket. It gathers a record from each party of a named meeting and then gives all records to all of them,
// and it keeps the connections between hosts that peers open until they are taken. Used when communicators are made and
// split; never by operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nccl.h>

#include "vgpu/nccl/identity.hpp"
#include "vgpu/nccl/socket.hpp"

namespace vgpu::nccl {

// The address of a process's service, sent between ranks as raw bytes.
struct Service {
    Address address;
    Name token{};  // who knows it may connect
};

// This process's service, started on first use and again after a fork.
ncclResult_t own_service(Service& service);

// Each of `parties` gives a record of the same size; `all` is theirs in order of `index`. Blocks until all have come.
// ncclInvalidUsage when the parties disagree on their number or two claim one index.
ncclResult_t meet(const Service& host, const Name& meeting, int parties, int index, const void* record,
                  std::size_t bytes, Stop stop, std::vector<std::byte>& all);

template <typename Record>
ncclResult_t meet(const Service& host, const Name& meeting, int parties, int index, const Record& record, Stop stop,
                  std::vector<Record>& all) {
    std::vector<std::byte> bytes;
    const ncclResult_t result = meet(host, meeting, parties, index, &record, sizeof record, stop, bytes);
    if (result == ncclSuccess) {
        all.resize(static_cast<std::size_t>(parties));
        for (std::size_t i = 0; i < all.size(); ++i)
            __builtin_memcpy(static_cast<void*>(&all[i]), bytes.data() + i * sizeof record, sizeof record);
    }
    return result;
}

// A connection under a name that both sides know: one opens it to the other's service, which takes it there.
ncclResult_t open_connection(const Service& to, const Name& name, Stop stop, Fd& connection);
ncclResult_t take_connection(const Name& name, Stop stop, Fd& connection);

}  // namespace vgpu::nccl
