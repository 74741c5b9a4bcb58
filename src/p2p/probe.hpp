// MPI_Probe, MPI_Iprobe, MPI_Mprobe and MPI_Improbe where the message may be an envelope. Called by dispatch.cpp.
//
// A probe takes messages from MPI (probed_messages.hpp). Why no receive or probe of another thread misses one of them,
// with MPI_THREAD_MULTIPLE: a call that finds or receives messages on its arguments alone (all but matched receives)
// must look at the probed messages first, and then at what MPI has, or post its receive to MPI. Both are done in one
// hold of the engine's lock: by probe(), which looks again and again where MPI would block, by start_receive() and by
// post_unless_probed() of dispatch.cpp. A message is taken from MPI and added to the probed messages in one such hold
// too. So for any such call, and any message that is taken, one of these is true: the message was a probed message
// before the call's hold, and the call found it; or it was not, and then MPI still had it in the call's hold, and
// matched it with the call, unless an earlier message was matched or the call does not match it; or it came to MPI
// after that hold, where MPI matched it with the call's posted receive before any probe could take it. All calls come
// here in such a process because fastpath::probed_messages is never 0 there, so no wrapper takes the fast path
// (fastpath/message.hpp). Nothing waits for time to pass, and nobody waits under the lock.
//
// The same lock protects against what Open MPI's ob1 does: it reads what a probe has found after it has let go of its
// matching lock, when another thread may have received the message, and its memory is the next message's (4.1.4 and
// since, mca_pml_ob1_recv_req_start()).
#pragma once

#include "call/call.hpp"

namespace swy::p2p {

// Returns at once when `asked.flag` is there to be set, else when a message has arrived. Returns MPI's code.
int probe(MPI_Comm comm, const Matching& asked, bool matched);

}  // namespace swy::p2p
