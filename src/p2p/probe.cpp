// Probes in a job with envelopes: the program sees the payload's size, and what it then receives is what it has seen.
#include "p2p/probe.hpp"

#include "comm/state.hpp"
#include "fastpath/message.hpp"
#include "p2p/point_to_point.hpp"
#include "p2p/probed_messages.hpp"
#include "p2p/start.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::p2p {
namespace {

void tell(const ProbedMessage& taken, MPI_Status* status) {
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = taken.source;
    status->MPI_TAG = taken.tag;
    real::Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(taken.bytes));
    real::Status_set_cancelled(status, 0);
}

void tell(const MPI_Status& seen, MPI_Status* status) {
    if (status == MPI_STATUS_IGNORE)
        return;
    const int error = status->MPI_ERROR;  // not a probe's to write (MPI 4.0 section 3.2.5)
    *status = seen;
    status->MPI_ERROR = error;
    real::Status_set_cancelled(status, 0);  // over libfabric Open MPI 4.1.4 leaves there what was in its memory
}

// Tells whether a message with such a status may be an envelope. Communicators that span jobs carry none.
bool may_be_envelope(const comm::State* state, const MPI_Status& status) {
    return status._ucount == call::kEnvelopeBytes && (state == nullptr || !state->spans_jobs);
}

// Looks once, under the engine's lock: at the probed messages, then at what MPI has.
int look(MPI_Comm comm, const comm::State* state, const Matching& asked, bool& there) {
    there = true;
    for (;;) {
        if (const ProbedMessage* taken = find_probed(comm, asked.source, asked.receive_tag)) {
            tell(*taken, asked.status);
            return MPI_SUCCESS;
        }
        int found = 0;
        MPI_Status status;
        int rc = real::Iprobe(asked.source, asked.receive_tag, comm, &found, &status);
        if (rc != MPI_SUCCESS || !found || !may_be_envelope(state, status)) {
            there = found != 0;
            if (rc == MPI_SUCCESS && there)
                tell(status, asked.status);
            return rc;
        }
        // If another thread receives it first, the next look finds something else, or nothing.
        rc = probe_through(comm, status.MPI_SOURCE, status.MPI_TAG);
        if (rc != MPI_SUCCESS)
            return rc;
    }
}

// Handles what MPI has matched, in `asked.message`: the program gets the handle as it is, or a new one for the
// contents.
int matched(const comm::State* state, const Matching& asked, const MPI_Status& status) {
    if (!may_be_envelope(state, status)) {
        tell(status, asked.status);
        return MPI_SUCCESS;
    }
    ProbedMessage taken;
    if (const int rc = open(*asked.message, status, taken); rc != MPI_SUCCESS)
        return rc;
    tell(taken, asked.status);
    return give(std::move(taken), asked.message);
}

int look_and_match(MPI_Comm comm, const comm::State* state, const Matching& asked, bool& there) {
    there = true;
    if (asked.found)
        return matched(state, asked, MPI_Status(*asked.status));
    if (auto taken = claim_probed(comm, asked.source, asked.receive_tag)) {
        tell(*taken, asked.status);
        return give(std::move(*taken), asked.message);
    }
    int found = 0;
    MPI_Status status;
    const int rc = real::Improbe(asked.source, asked.receive_tag, comm, &found, asked.message, &status);
    there = found != 0;
    return rc != MPI_SUCCESS || !found ? rc : matched(state, asked, status);
}

}  // namespace

int probe(MPI_Comm comm, const Matching& asked, bool matched) {
    // Also makes sure that the probed messages of the communicator are dropped when it is freed.
    const comm::State* state = comm::of(comm);
    for (;;) {
        bool there = false;
        int rc = MPI_SUCCESS;
        {
            const progress::Hold hold;
            rc = matched ? look_and_match(comm, state, asked, there) : look(comm, state, asked, there);
        }
        if (asked.flag != nullptr)
            *asked.flag = there ? 1 : 0;
        if (matched && there && rc == MPI_SUCCESS)
            remember(*asked.message, comm);
        if (rc != MPI_SUCCESS || there)
            return rc;
        // Runs also for a non-blocking probe: MPI's own progress, which it runs under the lock, steps no operation, and
        // a program that probes again and again may call nothing else.
        progress::progress();
        if (asked.flag != nullptr)
            return rc;
    }
}

}  // namespace swy::p2p
