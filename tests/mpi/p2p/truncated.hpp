// Every way to receive a message of rank 1's that is too long. errors.cpp and mpi/handlers.cpp.
#pragma once

#include <mpi.h>

namespace truncated {

inline constexpr int kTag = 5;

inline int class_of(int code) {
    int mpi_class = MPI_SUCCESS;
    MPI_Error_class(code, &mpi_class);
    return mpi_class;
}

using Completing = int (*)(MPI_Request* request, MPI_Status* status);

inline int all(MPI_Request* request, MPI_Status* status) {
    return MPI_Waitall(1, request, status);
}
inline int any(MPI_Request* request, MPI_Status* status) {
    int index = 0;
    return MPI_Waitany(1, request, &index, status);
}
inline int some(MPI_Request* request, MPI_Status* status) {
    int completed = 0, index = 0;
    return MPI_Waitsome(1, request, &completed, &index, status);
}
inline int test(MPI_Request* request, MPI_Status* status) {
    int done = 0, code = MPI_SUCCESS;
    while (done == 0 && code == MPI_SUCCESS)
        code = MPI_Test(request, &done, status);
    return code;
}
inline int test_all(MPI_Request* request, MPI_Status* status) {
    int done = 0, code = MPI_SUCCESS;
    while (done == 0 && code == MPI_SUCCESS)
        code = MPI_Testall(1, request, &done, status);
    return code;
}
inline int test_any(MPI_Request* request, MPI_Status* status) {
    int done = 0, index = 0, code = MPI_SUCCESS;
    while (done == 0 && code == MPI_SUCCESS)
        code = MPI_Testany(1, request, &index, &done, status);
    return code;
}
inline int test_some(MPI_Request* request, MPI_Status* status) {
    int completed = 0, index = 0, code = MPI_SUCCESS;
    while (completed == 0 && code == MPI_SUCCESS)
        code = MPI_Testsome(1, request, &completed, &index, status);
    return code;
}

// `in_status`: the class of the error in the request's status, where the call says that it is there.
inline int complete(Completing completing, int code, MPI_Request& request, int& in_status) {
    if (code != MPI_SUCCESS)
        return code;
    MPI_Status status;
    status.MPI_ERROR = MPI_SUCCESS;
    code = completing(&request, &status);
    if (class_of(code) == MPI_ERR_IN_STATUS)
        in_status = class_of(status.MPI_ERROR);
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    return code;
}

template <Completing kCompleting>
int begun(void* buffer, int count, MPI_Comm comm, int& in_status) {
    MPI_Request request = MPI_REQUEST_NULL;
    return complete(kCompleting, MPI_Irecv(buffer, count, MPI_DOUBLE, 1, kTag, comm, &request), request, in_status);
}

inline MPI_Message matched(MPI_Comm comm) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mprobe(1, kTag, comm, &message, MPI_STATUS_IGNORE);
    return message;
}

struct Receive {
    const char* name;
    int (*make)(void* buffer, int count, MPI_Comm comm, int& in_status);
};
inline constexpr Receive kReceives[] = {
    {"Recv", [](void* buffer, int count, MPI_Comm comm,
                int&) { return MPI_Recv(buffer, count, MPI_DOUBLE, 1, kTag, comm, MPI_STATUS_IGNORE); }},
    {"Mrecv",
     [](void* buffer, int count, MPI_Comm comm, int&) {
         MPI_Message message = matched(comm);
         return MPI_Mrecv(buffer, count, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
     }},
    {"Sendrecv",
     [](void* buffer, int count, MPI_Comm comm, int&) {
         return MPI_Sendrecv(buffer, count, MPI_DOUBLE, MPI_PROC_NULL, 0, buffer, count, MPI_DOUBLE, 1, kTag, comm,
                             MPI_STATUS_IGNORE);
     }},
    {"Sendrecv_replace",
     [](void* buffer, int count, MPI_Comm comm, int&) {
         return MPI_Sendrecv_replace(buffer, count, MPI_DOUBLE, MPI_PROC_NULL, 0, 1, kTag, comm, MPI_STATUS_IGNORE);
     }},
    {"Irecv, MPI_Wait", begun<MPI_Wait>},
    {"Irecv, MPI_Waitall", begun<all>},
    {"Irecv, MPI_Waitany", begun<any>},
    {"Irecv, MPI_Waitsome", begun<some>},
    {"Irecv, MPI_Test", begun<test>},
    {"Irecv, MPI_Testall", begun<test_all>},
    {"Irecv, MPI_Testany", begun<test_any>},
    {"Irecv, MPI_Testsome", begun<test_some>},
    {"Imrecv",
     [](void* buffer, int count, MPI_Comm comm, int& in_status) {
         MPI_Message message = matched(comm);
         MPI_Request request = MPI_REQUEST_NULL;
         return complete(MPI_Wait, MPI_Imrecv(buffer, count, MPI_DOUBLE, &message, &request), request, in_status);
     }},
    {"Recv_init",
     [](void* buffer, int count, MPI_Comm comm, int& in_status) {
         MPI_Request request = MPI_REQUEST_NULL;
         MPI_Recv_init(buffer, count, MPI_DOUBLE, 1, kTag, comm, &request);
         return complete(MPI_Wait, MPI_Start(&request), request, in_status);
     }},
#if OMPI_MAJOR_VERSION >= 5
    {"Isendrecv",
     [](void* buffer, int count, MPI_Comm comm, int& in_status) {
         MPI_Request request = MPI_REQUEST_NULL;
         return complete(MPI_Wait,
                         MPI_Isendrecv(buffer, count, MPI_DOUBLE, MPI_PROC_NULL, 0, buffer, count, MPI_DOUBLE, 1, kTag,
                                       comm, &request),
                         request, in_status);
     }},
#endif
};

}  // namespace truncated
