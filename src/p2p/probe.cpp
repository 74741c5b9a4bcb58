// Probes in a job with envelopes: the program sees the payload's size, and what it then receives is what it has seen.
#include "p2p/probe.hpp"

#include <chrono>
#include <mutex>
#include <thread>

#include "p2p/begin.hpp"
#include "p2p/kept.hpp"
#include "p2p/plain.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/wait.hpp"

namespace swy::p2p {
namespace {

void tell(const Taken& taken, MPI_Status* status) {
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
}

// One look, under the engine's lock: at what is kept, then at what MPI has.
int look(MPI_Comm comm, const Matching& asked, bool& there) {
    there = true;
    for (;;) {
        if (const Taken* taken = find_kept(comm, asked.source, asked.receive_tag)) {
            tell(*taken, asked.status);
            return MPI_SUCCESS;
        }
        int found = 0;
        MPI_Status status;
        int rc = real::Iprobe(asked.source, asked.receive_tag, comm, &found, &status);
        if (rc != MPI_SUCCESS || !found || status._ucount != kEnvelopeBytes) {
            there = found != 0;
            if (rc == MPI_SUCCESS && there)
                tell(status, asked.status);
            return rc;
        }
        // Another thread may receive it first: then the next look finds something else, or nothing.
        rc = keep_through(comm, status.MPI_SOURCE, status.MPI_TAG);
        if (rc != MPI_SUCCESS)
            return rc;
    }
}

// What MPI has matched, in `asked.message`: the program gets the handle as it is, or one for what was in it.
int matched(const Matching& asked, const MPI_Status& status) {
    if (status._ucount != kEnvelopeBytes) {
        tell(status, asked.status);
        return MPI_SUCCESS;
    }
    Taken taken;
    if (const int rc = open(*asked.message, status, taken); rc != MPI_SUCCESS)
        return rc;
    tell(taken, asked.status);
    return give(std::move(taken), asked.message);
}

int look_and_match(MPI_Comm comm, const Matching& asked, bool& there) {
    there = true;
    if (asked.found)
        return matched(asked, MPI_Status(*asked.status));
    if (auto taken = take_kept(comm, asked.source, asked.receive_tag)) {
        tell(*taken, asked.status);
        return give(std::move(*taken), asked.message);
    }
    int found = 0;
    MPI_Status status;
    const int rc = real::Improbe(asked.source, asked.receive_tag, comm, &found, asked.message, &status);
    there = found != 0;
    return rc != MPI_SUCCESS || !found ? rc : matched(asked, status);
}

// Of several threads one may have seen that nothing is kept, and be on its way to MPI with a receive for a message that
// is kept the next moment: there it would wait for ever. So before a process with threads keeps anything for the first
// time it has all receives look for what is kept from then on, which they do under the engine's lock, and gives those
// that are on their way time to arrive.
void have_receives_look() {
    static constexpr auto kOnTheWay = std::chrono::milliseconds(20);
    static std::once_flag once;
    std::call_once(once, [] {
        int threads = MPI_THREAD_SINGLE;
        real::Query_thread(&threads);
        if (threads < MPI_THREAD_MULTIPLE)
            return;
        kept.fetch_add(1);
        std::this_thread::sleep_for(kOnTheWay);
    });
}

}  // namespace

int probe(MPI_Comm comm, const Matching& asked, bool matched) {
    if (!matched)
        have_receives_look();
    for (;;) {
        bool there = false;
        int rc = MPI_SUCCESS;
        {
            const request::Hold hold;
            rc = matched ? look_and_match(comm, asked, there) : look(comm, asked, there);
        }
        if (asked.flag != nullptr)
            *asked.flag = there ? 1 : 0;
        if (matched && there && rc == MPI_SUCCESS)
            remember(*asked.message, comm);
        if (rc != MPI_SUCCESS || there)
            return rc;
        // Also where a call asks once: MPI's own progress, which it runs under the lock, steps no operation, and a
        // program that asks again and again may call nothing else.
        request::progress();
        if (asked.flag != nullptr)
            return rc;
    }
}

}  // namespace swy::p2p
