#include "p2p/control.hpp"

#include <list>
#include <vector>

#include "comm/job_messages.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::p2p {
namespace {

// The number of receives that are always posted, used in turn: a burst of control messages finds a receive without
// waiting in MPI's queue of unexpected messages.
constexpr std::size_t kPosted = 8;

struct Posted {
    Control control{};
    MPI_Request request = MPI_REQUEST_NULL;
};

struct Leaving {
    int to;
    Control control;
    MPI_Request request = MPI_REQUEST_NULL;
};

std::vector<Posted>& posted() {
    static auto* all = new std::vector<Posted>;  // not destroyed at exit
    return *all;
}
std::list<Leaving>& leaving() {
    static auto* all = new std::list<Leaving>;
    return *all;
}
std::size_t oldest = 0;

void forget_what_has_left() {
    while (!leaving().empty()) {
        int done = 0;
        if (real::Test(&leaving().front().request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
            return;
        leaving().pop_front();
    }
}

}  // namespace

int start_control() {
    posted().resize(kPosted);
    oldest = 0;
    for (Posted& place : posted()) {
        int rc = real::Recv_init(&place.control, sizeof(Control), MPI_BYTE, MPI_ANY_SOURCE, comm::kControlTag,
                                 comm::control_communicator(), &place.request);
        if (rc == MPI_SUCCESS)
            rc = real::Start(&place.request);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

void stop_control() {
    for (Leaving& message : leaving())
        if (message.request != MPI_REQUEST_NULL)
            real::Request_free(&message.request);
    for (Posted& place : posted()) {
        if (place.request == MPI_REQUEST_NULL)
            continue;
        real::Cancel(&place.request);
        real::Wait(&place.request, MPI_STATUS_IGNORE);
        real::Request_free(&place.request);
    }
    posted().clear();
}

MPI_Comm chunks() {
    return comm::control_communicator();
}

void send_control(int rank, const Control& control) {
    forget_what_has_left();
    leaving().push_back({rank, control});
    Leaving& message = leaving().back();
    // If MPI fails the peer is gone, and MPI's error handler decides at the program's next communication with it.
    if (real::Isend(&message.control, sizeof(Control), MPI_BYTE, rank, comm::kControlTag, comm::control_communicator(),
                    &message.request) != MPI_SUCCESS)
        leaving().pop_back();
}

void see_off_controls(int rank) {
    for (Leaving& message : leaving())
        if (message.to == rank)
            progress::see_off(message.request, comm::control_communicator());
}

bool receive_controls(Receiver receiver) {
    bool any = false;
    for (;;) {
        Posted& place = posted()[oldest];
        int there = 0;
        MPI_Status status;
        // Where a rank has failed, Open MPI 5 may return MPI_ERR_PROC_FAILED_PENDING with a message that has come.
        real::Test(&place.request, &there, &status);
        if (!there)
            return any;
        const Control control = place.control;
        real::Start(&place.request);
        oldest = (oldest + 1) % kPosted;
        receiver(status.MPI_SOURCE, control);
        any = true;
    }
}

}  // namespace swy::p2p
