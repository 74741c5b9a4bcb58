// What a completion call does around the real one while a request of ours, or a watched one, is known: remembers which
// of its requests those are, and afterwards writes their statuses and raises their errors. Used by complete.cpp alone.
#pragma once

#include <mpi.h>

#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "request/table.hpp"

namespace swy::request {

// What is known of a request before the real call: afterwards MPI may use its address again, and another thread the
// record.
struct Known {
    int index = 0;
    Found found;
    std::shared_ptr<Handle> handle;  // null for a watched receive
    HostReceive receive;

    Known(int place, const Found& seen) : index(place), found(seen), handle(seen.record->handle) {
        if (handle == nullptr)
            receive = seen.record->receive;
    }
};

// May the completion of the request change anything? An inactive one may have the status of its last message.
inline bool counts(const Found& found) {
    return found && (found.record->handle != nullptr || !found.record->persistent || found.record->started);
}

// After a real call with `code` that has completed the request, now `request`: writes the status and raises the error.
// The code for the program.
int complete_one(const Known& known, MPI_Request request, int code, MPI_Status& status);

// After one that has only looked, and found it done.
void look_at(const Known& known, MPI_Status& status);

// The same for an array.
class Completing {
  public:
    // Before the real call. The array is the program's; the real call changes it.
    Completing(const MPI_Request* requests, int count);

    bool none() const { return known_.empty(); }

    // After a call that has completed one request, or none (an index below 0), with the real call's code and a status.
    // The code for the program.
    int one(int index, int code, MPI_Status& status);

    // After one that has completed several: statuses[k] is that of request indices[k], of request k without indices.
    int several(int code, std::span<MPI_Status> statuses, const int* indices);

  private:
    Known* at(int index);

    static constexpr std::size_t kUsual = 8;
    alignas(Known) std::byte usual_[kUsual * sizeof(Known)];  // no allocation for a few requests
    std::pmr::monotonic_buffer_resource memory_{usual_, sizeof usual_};
    std::pmr::vector<Known> known_{&memory_};  // by index
    const MPI_Request* requests_;
};

}  // namespace swy::request
