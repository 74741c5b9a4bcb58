// Receives into host memory that MPI carries, and in which an envelope may arrive.
#include <utility>

#include "real.hpp"
#include "request/engine.hpp"
#include "request/table.hpp"
#include "request/watched.hpp"

namespace swy::request {
namespace {

// A receive whose request the program has freed while it was active: somebody must answer an envelope that comes.
class Abandoned final : public Operation {
  public:
    Abandoned(MPI_Request request, HostReceive receive)
        : Operation(receive.call, receive.comm), request_(request), receive_(std::move(receive)) {}

    bool step() override {
        if (!may_ask())
            return false;
        int flag = 0;
        MPI_Status status;
        if (real::Request_get_status(request_, &flag, &status) == MPI_SUCCESS && flag == 0)
            return false;
        if (flag != 0 && may_hold_envelope(status))
            envelope_arrived(receive_, status, false);
        real::Request_free(&request_);
        finish({});
        return true;
    }

  private:
    MPI_Request request_;
    const HostReceive receive_;
};

// Open MPI 4.1.4's MPI_Request_get_status takes a request for completed that a call waits for at that moment. The
// length in its status is none before it really is.
void answer(Record& record) {
    if (record.handle != nullptr || record.answered || (record.persistent && !record.started) || !may_ask())
        return;
    int flag = 0;
    MPI_Status status;
    if (real::Request_get_status(record.request, &flag, &status) != MPI_SUCCESS || flag == 0 || status._ucount == 0)
        return;
    record.answered = true;
    if (may_hold_envelope(status))
        envelope_arrived(record.receive, status, true);
}

}  // namespace

// Where another thread may complete the receive at the same time, its sender has to wait until the program does that.
bool answer_watched() {
    look_at_some(answer);
    return false;
}

constinit Arrived envelope_arrived = nullptr;

void watch(MPI_Request request, HostReceive receive, bool persistent) {
    enter(request, std::move(receive), persistent);
}

void abandon(MPI_Request request, HostReceive receive) {
    auto operation = std::make_shared<Abandoned>(request, std::move(receive));
    const Hold hold;
    add(std::move(operation));
}

}  // namespace swy::request
