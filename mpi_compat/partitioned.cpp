// The wrappers of partitioned point-to-point, written by hand: a message has several operands, one for each partition.
#include "p2p/partitioned.hpp"

#include "mpi_compat/wrapper.hpp"
#include "progress/engine.hpp"
#include "request/handle.hpp"

#if OMPI_MAJOR_VERSION >= 5

using namespace swy;
using p2p::partitioned::Arguments;

namespace {

// Is the message MPI's own? Does what the dispatcher does for the generated wrappers: a driver that was loaded since
// MPI_Init is noticed first.
bool is_for_mpi(const Arguments& arguments) {
    const bool closed = driver_watch::closed();
    if (!closed && driver_watch::changed()) [[unlikely]]
        driver_watch::refresh();
    if (p2p::partitioned::goes_by_messages(arguments))
        return false;
    return closed || !p2p::partitioned::on_device(arguments);
}

bool ours(MPI_Request request, int partition, int& code) {
    const call::Inside guard;
    return progress::known_requests.load(std::memory_order_relaxed) != 0 &&
           p2p::partitioned::ready(request, partition, code);
}

}  // namespace

extern "C" SWY_EXPORT int MPI_Psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                                         int dest, int tag, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
    const Operand partition{.address = const_cast<void*>(buf), .count = count, .type = datatype, .access = Access::kIn};
    const Arguments arguments{partition, partitions, dest, tag, comm, info};
    if (is_for_mpi(arguments)) [[likely]]
        return real::Psend_init(buf, partitions, count, datatype, dest, tag, comm, info, request);
    const call::Inside guard;
    return p2p::partitioned::send_init(arguments, request);
}
SWY_PAIR(MPI_Psend_init)

extern "C" SWY_EXPORT int MPI_Precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source,
                                         int tag, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
    const Operand partition{.address = buf, .count = count, .type = datatype, .access = Access::kOut};
    const Arguments arguments{partition, partitions, source, tag, comm, info};
    if (is_for_mpi(arguments)) [[likely]]
        return real::Precv_init(buf, partitions, count, datatype, source, tag, comm, info, request);
    const call::Inside guard;
    return p2p::partitioned::receive_init(arguments, request);
}
SWY_PAIR(MPI_Precv_init)

extern "C" SWY_EXPORT int MPI_Pready(int partitions, MPI_Request request) {
    int code = MPI_SUCCESS;
    return ours(request, partitions, code) ? code : real::Pready(partitions, request);
}
SWY_PAIR(MPI_Pready)

extern "C" SWY_EXPORT int MPI_Pready_range(int partition_low, int partition_high, MPI_Request request) {
    for (int partition = partition_low; partition <= partition_high; ++partition) {
        int code = MPI_SUCCESS;
        if (!ours(request, partition, code))
            return real::Pready_range(partition, partition_high, request);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}
SWY_PAIR(MPI_Pready_range)

extern "C" SWY_EXPORT int MPI_Pready_list(int length, int partition_list[], MPI_Request request) {
    for (int i = 0; i < length; ++i) {
        int code = MPI_SUCCESS;
        if (!ours(request, partition_list[i], code))
            return real::Pready_list(length - i, partition_list + i, request);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}
SWY_PAIR(MPI_Pready_list)

extern "C" SWY_EXPORT int MPI_Parrived(MPI_Request request, int partition, int* flag) {
    int code = MPI_SUCCESS;
    const call::Inside guard;
    if (progress::known_requests.load(std::memory_order_relaxed) != 0 &&
        p2p::partitioned::arrived(request, partition, flag, code))
        return code;
    return real::Parrived(request, partition, flag);
}
SWY_PAIR(MPI_Parrived)

#endif
