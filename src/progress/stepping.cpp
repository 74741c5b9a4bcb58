#include "progress/stepping.hpp"

#include <new>
#include <vector>

#include "call/replace.hpp"
#include "progress/engine.hpp"
#include "real.hpp"

namespace swy::progress {
namespace {

// Steps once and makes the call, which does not wait.
template <auto& kPointer, typename... A>
int step_and_call(A... arguments) {
    step_in_call();
    return real::original<kPointer>(arguments...);
}

// Repeats a call that does not wait until it fails or sets its flag; `call` takes the flag's address.
template <typename Call>
int until_flag(Call call) {
    int flag = 0;
    int code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && flag == 0)
        code = call(&flag);
    return code;
}

int wait(MPI_Request* request, MPI_Status* status) {
    return until_flag([=](int* flag) { return real::Test(request, flag, status); });
}

int waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
    return until_flag([=](int* flag) { return real::Testany(count, requests, index, flag, status); });
}

int waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
    return until_flag([=](int* flag) { return real::Testall(count, requests, flag, statuses); });
}

// MPI_Testsome has MPI_UNDEFINED where all requests are inactive.
int waitsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses) {
    if (completed == nullptr)  // an error, for which the real call has the words
        return real::Testsome(count, requests, completed, indices, statuses);
    int code = MPI_SUCCESS;
    do
        code = real::Testsome(count, requests, completed, indices, statuses);
    while (code == MPI_SUCCESS && *completed == 0);
    return code;
}

int probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
    return until_flag([=](int* flag) { return real::Iprobe(source, tag, comm, flag, status); });
}

int mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
    return until_flag([=](int* flag) { return real::Improbe(source, tag, comm, flag, message, status); });
}

// A send is its form that does not block, and a wait.
template <auto& kStart>
int send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = kStart(buffer, count, type, dest, tag, comm, &request);
    return code != MPI_SUCCESS ? code : real::Wait(&request, MPI_STATUS_IGNORE);
}

int recv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = real::Irecv(buffer, count, type, source, tag, comm, &request);
    return code != MPI_SUCCESS ? code : real::Wait(&request, status);
}

int mrecv(void* buffer, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = real::Imrecv(buffer, count, type, message, &request);
    return code != MPI_SUCCESS ? code : real::Wait(&request, status);
}

// What has been posted cannot match a message that is never sent.
int withdraw(MPI_Request& receive, int code) {
    real::Cancel(&receive);
    real::Request_free(&receive);
    return code;
}

int sendrecv(const void* sent, int send_count, MPI_Datatype send_type, int dest, int send_tag, void* received,
             int receive_count, MPI_Datatype receive_type, int source, int receive_tag, MPI_Comm comm,
             MPI_Status* status) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int code = real::Irecv(received, receive_count, receive_type, source, receive_tag, comm, &requests[0]);
    if (code != MPI_SUCCESS)
        return code;
    code = real::Isend(sent, send_count, send_type, dest, send_tag, comm, &requests[1]);
    if (code != MPI_SUCCESS)
        return withdraw(requests[0], code);
    const int of_receive = real::Wait(&requests[0], status);
    const int of_send = real::Wait(&requests[1], MPI_STATUS_IGNORE);
    return of_receive != MPI_SUCCESS ? of_receive : of_send;
}

// The data that is sent is packed first, since the receive may write over it at once.
int sendrecv_replace(void* buffer, int count, MPI_Datatype type, int dest, int send_tag, int source, int receive_tag,
                     MPI_Comm comm, MPI_Status* status) {
    int room = 0;
    int packed = 0;
    if (const int code = real::Pack_size(count, type, comm, &room); code != MPI_SUCCESS)
        return code;
    std::vector<char> copy;
    try {
        copy.resize(static_cast<std::size_t>(room));
    } catch (const std::bad_alloc&) {
        real::Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
        return MPI_ERR_NO_MEM;
    }
    if (const int code = real::Pack(buffer, count, type, copy.data(), room, &packed, comm); code != MPI_SUCCESS)
        return code;
    return sendrecv(copy.data(), packed, MPI_PACKED, dest, send_tag, buffer, count, type, source, receive_tag, comm,
                    status);
}

template <auto& kPointer, typename... A>
void step_in(const char* name, int (*&)(A...)) {
    real::replace<kPointer>(name, step_and_call<kPointer, A...>);
}

}  // namespace

void step_in_calls() {
    step_in<real::Test>("PMPI_Test", real::Test);
    step_in<real::Testany>("PMPI_Testany", real::Testany);
    step_in<real::Testall>("PMPI_Testall", real::Testall);
    step_in<real::Testsome>("PMPI_Testsome", real::Testsome);
    step_in<real::Request_get_status>("PMPI_Request_get_status", real::Request_get_status);
    step_in<real::Iprobe>("PMPI_Iprobe", real::Iprobe);
    step_in<real::Improbe>("PMPI_Improbe", real::Improbe);
    real::replace<real::Wait>("PMPI_Wait", wait);
    real::replace<real::Waitany>("PMPI_Waitany", waitany);
    real::replace<real::Waitall>("PMPI_Waitall", waitall);
    real::replace<real::Waitsome>("PMPI_Waitsome", waitsome);
    real::replace<real::Probe>("PMPI_Probe", probe);
    real::replace<real::Mprobe>("PMPI_Mprobe", mprobe);
    real::replace<real::Send>("PMPI_Send", send<real::Isend>);
    real::replace<real::Ssend>("PMPI_Ssend", send<real::Issend>);
    real::replace<real::Rsend>("PMPI_Rsend", send<real::Irsend>);
    real::replace<real::Recv>("PMPI_Recv", recv);
    real::replace<real::Mrecv>("PMPI_Mrecv", mrecv);
    real::replace<real::Sendrecv>("PMPI_Sendrecv", sendrecv);
    real::replace<real::Sendrecv_replace>("PMPI_Sendrecv_replace", sendrecv_replace);
}

}  // namespace swy::progress
