#include "p2p/partitioned.hpp"

#if OMPI_MAJOR_VERSION >= 5

#include <map>
#include <memory>
#include <mutex>

#include "call/job.hpp"
#include "comm/state.hpp"
#include "datatype/layout.hpp"
#include "fastpath/message.hpp"
#include "p2p/invalid_arguments.hpp"
#include "p2p/partition_messages.hpp"
#include "p2p/start.hpp"
#include "request/handle.hpp"

namespace swy::p2p::partitioned {
namespace {

// Sides by the handles that the program has.
struct Known {
    std::mutex mutex;
    std::map<MPI_Request, std::weak_ptr<Side>> sides;
};
Known& known() {
    static auto* all = new Known;  // not destroyed at exit
    return *all;
}

int init(CallId call, const Arguments& arguments, MPI_Request* request) {
    const std::shared_ptr<Side> side = !goes_by_messages(arguments) ? staged(call, arguments)
                                       : call == CallId::kPsendInit ? sending_side(call, arguments)
                                                                    : receiving_side(call, arguments);
    if (const int rc = side->make(); rc != MPI_SUCCESS)
        return rc;
    const auto start = [side](int& code) { return side->start(code); };
    const int rc = request::hand_out_persistent(call, arguments.comm, start, request);
    if (rc == MPI_SUCCESS) {
        Known& all = known();
        const std::scoped_lock lock(all.mutex);
        all.sides[*request] = side;
    }
    return rc;
}

// Does not find a handle that was freed and is another request's now: its side has been destroyed with it.
std::shared_ptr<Side> find(MPI_Request request) {
    Known& all = known();
    const std::scoped_lock lock(all.mutex);
    const auto it = all.sides.find(request);
    return it == all.sides.end() ? nullptr : it->second.lock();
}

}  // namespace

bool goes_by_messages(const Arguments& arguments) {
    if (!call::job_agrees || !fastpath::envelopes || arguments.partitions <= 0 || arguments.peer < 0 ||
        arguments.tag < 0 || arguments.partition.count <= 0)
        return false;
    MPI_Request request = MPI_REQUEST_NULL;
    const Matching matching{.dest = arguments.peer,
                            .send_tag = arguments.tag,
                            .source = arguments.peer,
                            .receive_tag = arguments.tag,
                            .request = &request};
    const Call call{.id = CallId::kSendInit,
                    .owner = Owner(arguments.comm),
                    .operands = {&arguments.partition, 1},
                    .root = arguments.peer,
                    .matching = &matching};
    if (has_invalid_argument(call) || datatype::size_of(arguments.partition.type) == 0)
        return false;
    const comm::State* const state = comm::of(arguments.comm);
    return state != nullptr && !state->inter && !state->spans_jobs && state->order != nullptr;
}

bool on_device(const Arguments& arguments) {
    if (arguments.partitions <= 0 || arguments.peer == MPI_PROC_NULL)
        return false;
    Operand all = arguments.partition;
    all.count *= arguments.partitions;
    Call call{.id = CallId::kIsend, .owner = Owner(arguments.comm), .operands = {&all, 1}};
    call.root = 0;
    return p2p::on_device(call, all);
}

int send_init(const Arguments& arguments, MPI_Request* request) {
    return init(CallId::kPsendInit, arguments, request);
}

int receive_init(const Arguments& arguments, MPI_Request* request) {
    return init(CallId::kPrecvInit, arguments, request);
}

bool ready(MPI_Request request, int partition, int& code) {
    const std::shared_ptr<Side> side = find(request);
    if (side != nullptr)
        code = side->ready(partition);
    return side != nullptr;
}

bool arrived(MPI_Request request, int partition, int* flag, int& code) {
    const std::shared_ptr<Side> side = find(request);
    if (side != nullptr)
        code = side->arrived(partition, flag);
    return side != nullptr;
}

}  // namespace swy::p2p::partitioned

#endif
