// What a completion call does around the real one while a request of Switchyard's, or a watched one, exists: it notes
// which of its requests those are, puts stand-ins in place of some, and afterwards writes their statuses and raises
// their errors. Only complete.cpp uses it.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "request/table.hpp"

namespace swy::request {

// A request of a call, as it was found before the real call, which may have ended it.
struct Known {
    int index;
    Found found;

    Record& record() const { return *found.record; }
};

// Tells whether the completion of the request may change anything. A call on an inactive request may return the status
// of its last message.
inline bool counts(const Found& found) {
    return found && (found.record->handle != nullptr || !found.record->persistent() || found.record->started);
}

// Called after a real call with `code` has completed the request, which is `request` now: writes the status and raises
// the error. Returns the code for the program.
int complete_one(const Known& known, MPI_Request request, int code, MPI_Status& status);

// Called after a real call that has only looked at the request, and found it complete.
void look_at(const Known& known, MPI_Status& status);

// Called before a real call that does not wait. Tells whether it may complete the request: that of a large message must
// not go as long as the message has not come.
bool may_complete(const Found& found);

// Called after an exception, thrown by the program's error handler, has left a real call: what the call has completed
// has ended for Switchyard too. That request is MPI_REQUEST_NULL now, or inactive when it is persistent (Open MPI 4.1
// frees one that has failed). The status is as MPI has left it.
void thrown(const Known& known, MPI_Request request, MPI_Status& status);

// The same for an array.
class Completing {
  public:
    // Constructed before the real call. The array is the program's; the real call changes it.
    Completing(const MPI_Request* requests, int count);
    Completing(const Completing&) = delete;
    Completing& operator=(const Completing&) = delete;

    bool none() const { return count_ == 0; }
    std::span<const Known> all() const { return {known_, count_}; }
    bool all_may_complete() const {
        return std::all_of(all().begin(), all().end(), [](const Known& known) { return may_complete(known.found); });
    }

    // Called after a real call that waits for some of the program's requests, `requests`, and has completed one with an
    // envelope whose message is still on its way: a request for the operation that goes on with it takes its place, and
    // the call waits on, perhaps for another one. Returns whether that was so.
    bool goes_on(MPI_Request* requests, int index, const MPI_Status& status);

    // The same for each of several requests that the call has completed: statuses[k] is that of request indices[k].
    // Returns how many of them are complete, and moves their indices and statuses to the front.
    int without_going_on(MPI_Request* requests, int* indices, std::span<MPI_Status> statuses);

    // Called after a real call that has completed one request, or none (an index below 0), with the real call's code
    // and a status. Returns the code for the program.
    int one(int index, int code, MPI_Status& status);

    // As thrown() above: statuses[k] is that of request indices[k], of request k without indices.
    void thrown(std::span<MPI_Status> statuses, const int* indices);

    // Called after a real call that has completed several: statuses[k] is that of request indices[k], of request k
    // without indices. Returns the code for the program.
    int several(int code, std::span<MPI_Status> statuses, const int* indices);

  private:
    const Known* at(int index) const;
    void leave_ordinary(std::span<MPI_Status> statuses);
    int several_with_care(int code, std::span<MPI_Status> statuses, const int* indices);
    template <typename Settle>
    void each(std::span<MPI_Status> statuses, const int* indices, Settle publish_status);

    static constexpr int kUsual = 64;
    // Raw memory, which costs a call nothing until it is used.
    alignas(Known) std::byte usual_[kUsual * sizeof(Known)];
    std::unique_ptr<Known[]> many_;
    Known* known_ = reinterpret_cast<Known*>(usual_);  // by index
    std::size_t count_ = 0;
    const MPI_Request* requests_;
};

// Stand-ins: for persistent receives of MPI's own for which a probe had taken the message from MPI when they were
// started. An operation receives that message. MPI's request stays inactive, which its completion functions take for
// complete, so until the program completes the receive a request of Switchyard's stands in for it, in a copy of the
// array that these functions get. The program's handle stays what it is.
//
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
