// Watched receives: receives of MPI's own into host memory, in which an envelope may arrive.
#include <utility>

#include "progress/engine.hpp"
#include "real.hpp"
#include "request/table.hpp"

namespace swy::request {
namespace {

// Over UCX, Open MPI 4.1.4's MPI_Request_get_status takes a request for complete while another call waits for it, and
// the status is then that of an earlier message of the same request object. So only the envelope itself shows that the
// message is there; an envelope that has not been checked is never left in memory. A receive that has no room for an
// envelope is checked when the program completes it.
void answer(Record& record) {
    if (record.handle != nullptr || record.checked || record.gone || record.receive.bytes < call::kEnvelopeBytes ||
        (record.persistent() && !record.started) || !shows_envelope(record.receive))
        return;
    int flag = 0;
    MPI_Status status;
    if (real::Request_get_status(record.request, &flag, &status) != MPI_SUCCESS || flag == 0 ||
        !may_hold_envelope(status))
        return;
    record.operation = envelope_arrived(record.receive, status);
    record.checked = record.operation != nullptr;
}

}  // namespace

// Where another thread may complete the receive at the same time, this is no service, and the sender has to wait until
// the program completes the receive.
bool answer_watched() {
    look_at_some(answer);
    return false;
}

void answer_all_watched() {
    if (one_thread)
        look_at_all(answer);
}

constinit Arrived envelope_arrived = nullptr;
constinit Shows shows_envelope = nullptr;
constinit GoOn go_on = nullptr;

void watch(MPI_Request request, HostReceive&& receive) {
    enter(request, std::move(receive));
}

void watch_persistent(MPI_Request request, HostReceive&& receive, HostStarter start) {
    enter(request, std::move(receive), std::move(start));
}

}  // namespace swy::request
