#include "p2p/invalid_arguments.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "call/depth.hpp"
#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "datatype/quick.hpp"
#include "device/device.hpp"
#include "real.hpp"

namespace swy::p2p {
namespace {

// MPI_Comm_c2f is the one function that tells without raising an error: Open MPI returns -1 for what is no
// communicator.
bool valid(MPI_Comm comm) {
    return comm != MPI_COMM_NULL && (comm::lately_used(comm) != nullptr || real::Comm_c2f(comm) != -1);
}

// Asks MPI itself, by a send to MPI_PROC_NULL on a communicator whose errors return: MPI checks the arguments first,
// and has no function that does this alone.
bool accepted(const Operand& operand) {
    const MPI_Comm quiet = comm::control_communicator();
    const auto count = static_cast<int>(std::min<MPI_Count>(operand.count, std::numeric_limits<int>::max()));
    return quiet == MPI_COMM_NULL ||
           real::Send(operand.address, count, operand.type, MPI_PROC_NULL, 0, quiet) == MPI_SUCCESS;
}

bool valid(const Operand& operand) {
    if (operand.count < 0 || operand.type == MPI_DATATYPE_NULL)
        return false;
    return (operand.address != nullptr && datatype::predefined(operand.type)) || accepted(operand);
}

int peers_on(MPI_Comm comm) {
    const comm::State* state = comm::of(comm);
    if (state != nullptr && !state->inter)
        return state->size;
    int inter = 0, peers = 0;
    real::Comm_test_inter(comm, &inter);
    (inter != 0 ? real::Comm_remote_size : real::Comm_size)(comm, &peers);
    return peers;
}

bool valid_rank(int rank, MPI_Comm comm) {
    return rank == MPI_PROC_NULL || (rank >= 0 && rank < peers_on(comm));
}

bool valid_tag(int tag, MPI_Comm comm) {
    constexpr int kAlways = 32767;  // MPI 4.0 section 9.1.2
    if (tag <= kAlways)
        return tag >= 0;
    int *greatest = nullptr, found = 0;
    real::Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&greatest), &found);
    return found == 0 || tag <= *greatest;
}

}  // namespace

bool has_invalid_argument(const Call& call) {
    const Matching& m = *call.matching;
    const std::span<const Operand> operands = call.operands;
    const auto any = [&](auto is) { return std::any_of(operands.begin(), operands.end(), is); };
    const bool probes = operands.empty();
    if (any([](const Operand& operand) { return !valid(operand); }) ||
        (!probes && !blocking(call.id) && m.request == nullptr))
        return true;
    if (call.owner.kind == Owner::Kind::kNone)  // the receive of a matched message
        return m.message == nullptr || *m.message == MPI_MESSAGE_NULL;
    const MPI_Comm comm = call.owner.comm;
    if (!valid(comm))
        return true;
    const bool sends = any([](const Operand& operand) { return operand.access != Access::kOut; });
    if (sends && !(valid_rank(m.dest, comm) && valid_tag(m.send_tag, comm)))
        return true;
    const bool receives = probes || any([](const Operand& operand) { return operand.access != Access::kIn; });
    return receives && !((m.source == MPI_ANY_SOURCE || valid_rank(m.source, comm)) &&
                         (m.receive_tag == MPI_ANY_TAG || valid_tag(m.receive_tag, comm)));
}

int left_to_mpi(const Call& call, Real real) {
    // Makes sure that nothing is sent or written if MPI was configured not to check its arguments. Where the address is
    // null, the count stays, since it is the reason for which MPI rejects the call.
    std::vector<Operand> empty(call.operands.begin(), call.operands.end());
    for (Operand& operand : empty) {
        if (operand.address != nullptr)
            operand.count = std::min(operand.count, MPI_Count{0});
        if (device::on_device(operand.address))
            operand.address = nullptr;
    }
    const call::Outside as_from_program;
    return real(empty.data());
}

}  // namespace swy::p2p
