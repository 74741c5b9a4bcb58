// The wrappers of calls on requests, written by hand: they have work to do only while a request that is not MPI's own,
// or a receive that may match an envelope, is known. Until then they are the real functions, at the cost of one branch.
#include "mpi_compat/wrapper.hpp"
#include "request/complete.hpp"

using namespace swy;
using request::complete::needed;

extern "C" SWY_EXPORT int MPI_Wait(MPI_Request* request, MPI_Status* status) {
    if (!needed()) [[likely]]
        return real::Wait(request, status);
    return request::complete::calls.wait(request, status);
}
SWY_PAIR(MPI_Wait)

extern "C" SWY_EXPORT int MPI_Waitany(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
    if (!needed()) [[likely]]
        return real::Waitany(count, array_of_requests, index, status);
    return request::complete::calls.waitany(count, array_of_requests, index, status);
}
SWY_PAIR(MPI_Waitany)

extern "C" SWY_EXPORT int MPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses) {
    if (!needed()) [[likely]]
        return real::Waitall(count, array_of_requests, array_of_statuses);
    return request::complete::calls.waitall(count, array_of_requests, array_of_statuses);
}
SWY_PAIR(MPI_Waitall)

extern "C" SWY_EXPORT int MPI_Waitsome(int incount, MPI_Request array_of_requests[], int* outcount,
                                       int array_of_indices[], MPI_Status array_of_statuses[]) {
    if (!needed()) [[likely]]
        return real::Waitsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
    return request::complete::calls.waitsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
}
SWY_PAIR(MPI_Waitsome)

extern "C" SWY_EXPORT int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
    if (!needed()) [[likely]]
        return real::Test(request, flag, status);
    return request::complete::calls.test(request, flag, status);
}
SWY_PAIR(MPI_Test)

extern "C" SWY_EXPORT int MPI_Testany(int count, MPI_Request array_of_requests[], int* index, int* flag,
                                      MPI_Status* status) {
    if (!needed()) [[likely]]
        return real::Testany(count, array_of_requests, index, flag, status);
    return request::complete::calls.testany(count, array_of_requests, index, flag, status);
}
SWY_PAIR(MPI_Testany)

extern "C" SWY_EXPORT int MPI_Testall(int count, MPI_Request array_of_requests[], int* flag,
                                      MPI_Status array_of_statuses[]) {
    if (!needed()) [[likely]]
        return real::Testall(count, array_of_requests, flag, array_of_statuses);
    return request::complete::calls.testall(count, array_of_requests, flag, array_of_statuses);
}
SWY_PAIR(MPI_Testall)

extern "C" SWY_EXPORT int MPI_Testsome(int incount, MPI_Request array_of_requests[], int* outcount,
                                       int array_of_indices[], MPI_Status array_of_statuses[]) {
    if (!needed()) [[likely]]
        return real::Testsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
    return request::complete::calls.testsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
}
SWY_PAIR(MPI_Testsome)

extern "C" SWY_EXPORT int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
    if (!needed()) [[likely]]
        return real::Request_get_status(request, flag, status);
    return request::complete::get_status(request, flag, status);
}
SWY_PAIR(MPI_Request_get_status)

extern "C" SWY_EXPORT int MPI_Request_free(MPI_Request* request) {
    if (!needed()) [[likely]]
        return real::Request_free(request);
    return request::complete::free(request);
}
SWY_PAIR(MPI_Request_free)

extern "C" SWY_EXPORT int MPI_Cancel(MPI_Request* request) {
    if (!needed()) [[likely]]
        return real::Cancel(request);
    return request::complete::cancel(request);
}
SWY_PAIR(MPI_Cancel)

extern "C" SWY_EXPORT int MPI_Start(MPI_Request* request) {
    if (!needed()) [[likely]]
        return real::Start(request);
    return request::complete::start(request);
}
SWY_PAIR(MPI_Start)

extern "C" SWY_EXPORT int MPI_Startall(int count, MPI_Request array_of_requests[]) {
    if (!needed()) [[likely]]
        return real::Startall(count, array_of_requests);
    return request::complete::startall(count, array_of_requests);
}
SWY_PAIR(MPI_Startall)
