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

    // After one that has only looked.
    void looked(MPI_Status& status) const;

  private:
    struct Known {
        int index = 0;
        Found found;
        std::shared_ptr<Handle> handle;  // null for a watched receive
        HostReceive receive;
    };
    struct Failure {
        int mpi_class = MPI_SUCCESS;
        std::string text;
        Owner owner;
    };

    Known* at(int index);
    // Writes the status. `real_class` is what MPI says of this request.
    Failure settle(Known& known, int real_class, MPI_Status& status) const;
    static Failure settle_ours(const Known& known, MPI_Status& status);
    static int raise(const Failure& failure);

    static constexpr std::size_t kUsualBytes = 1024;
    alignas(Known) std::byte usual_[kUsualBytes];  // no allocation for a few requests
    std::pmr::monotonic_buffer_resource memory_{usual_, sizeof usual_};
    std::pmr::vector<Known> known_{&memory_};  // by index
    const MPI_Request* requests_;
};

}  // namespace swy::request
