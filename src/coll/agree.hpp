// The agreement of the ranks on one call: a blocking call starts it and waits for its end, one that does not block
// starts it alone (pending_agreement.hpp).
#pragma once

#include <memory>
#include <string>

#include "call/call.hpp"
#include "coll/agreement_transport.hpp"
#include "coll/vote_record.hpp"
#include "comm/shared_page.hpp"
#include "comm/state.hpp"

namespace swy::coll {

// Starts the agreement of a non-blocking call, which gets its number among the communicator's calls. Returns MPI's
// code; the decision is read() from `exchange` once its request is complete.
int begin(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print, VoteExchange& exchange);

// The whole agreement of a blocking call: over the shared page where the communicator has one, otherwise by MPI.
// Collective over the communicator.
Decision agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print);

// The same for a rank that has host memory alone in the call, on a communicator with a shared page: it publishes its
// record and does not wait (PageTransport). The record, except for its number, is made by host_record() from a
// described vote of host memory.
comm::SharedPage::Record host_record(const Call& call, const Vote& vote);
Decision tell_host(comm::State& comm, comm::SharedPage::Record record);

// After a set-up that the call named by `print` has waited for: asks the ranks what keeps them from NCCL now, this one
// `mine`, and decides on the greatest obstacle, within the limit of an agreement. `number` counts the call's questions,
// from 1. Collective over the communicator.
Decision ask(comm::State& comm, const Fingerprint& print, int number, Reason mine);

// Has the communicator a shared page that is not closed?
bool has_page(comm::State& comm);

// Makes a shared page for the ranks' next agreements, where they are on one host and enough agreements have been made.
// Collective over the communicator, after an agreement on the call named by `print`. Returns MPI's code.
int share_page(comm::State& comm, const Fingerprint& print);

// Called after kMismatch, collective over the communicator: returns which rank called what, for the error text.
std::string describe_mismatch(comm::State& comm, const Fingerprint& mine);

}  // namespace swy::coll
