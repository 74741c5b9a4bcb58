// Stand-ins: for persistent receives of MPI's own for which a probe had taken the message from MPI when they were
// started. An operation receives that message. MPI's request stays inactive, which its completion functions take for
// complete, so until the program completes the receive a request of Switchyard's stands in for it, in a copy of the
// array that these functions get. The program's handle stays what it is. Only complete.cpp uses this.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "request/table.hpp"

namespace swy::request {

// Makes a stand-in for an inactive persistent receive. Returns MPI's code.
int stand_in(Record& record, std::shared_ptr<progress::Operation> operation);

// Raises the error of MPI_Start of a receive that has a stand-in, and so is active. Returns the code.
int refuse_second_start(const Record& record);

extern std::atomic<int> stand_ins;  // the number of stand-ins in use

// For the duration of one call: the program's requests, with stand-ins in place of some of them. At its end, also by an
// exception of the program's error handler, what the call has completed is completed for the program.
class StandIns {
  public:
    StandIns(MPI_Request* requests, int count) : requests_(requests) {
        if (stand_ins.load(std::memory_order_relaxed) != 0) [[unlikely]]
            find_in(count);
    }

    ~StandIns() {
        if (any()) [[unlikely]]
            put_back();
    }
    StandIns(const StandIns&) = delete;
    StandIns& operator=(const StandIns&) = delete;

    bool any() const { return !found_.empty(); }
    MPI_Request* requests() { return copy_.data(); }

  private:
    void find_in(int count);
    void put_back();

    MPI_Request* const requests_;
    std::vector<std::pair<std::size_t, Record*>> found_;
    std::vector<MPI_Request> copy_;
};

}  // namespace swy::request
