// The completion calls, and those that start, cancel and free requests, while a request of Switchyard's or a watched
// one exists. The wrappers call these functions; MPI 4.0 section 3.7 says what each does.
#pragma once

#include <mpi.h>

#include "progress/engine.hpp"
#include "request/handle.hpp"

namespace swy::request::complete {

inline bool needed() {
    return progress::known_requests.load(std::memory_order_relaxed) != 0;
}

int wait(MPI_Request* request, MPI_Status* status);
int waitany(int count, MPI_Request* requests, int* index, MPI_Status* status);
int waitall(int count, MPI_Request* requests, MPI_Status* statuses);
int waitsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses);
int test(MPI_Request* request, int* flag, MPI_Status* status);
int testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status);
int testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses);
int testsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses);
int get_status(MPI_Request request, int* flag, MPI_Status* status);

// What the wrappers call: these functions, or those that time them too (timed.hpp).
struct Calls {
    int (*wait)(MPI_Request*, MPI_Status*) = complete::wait;
    int (*waitany)(int, MPI_Request*, int*, MPI_Status*) = complete::waitany;
    int (*waitall)(int, MPI_Request*, MPI_Status*) = complete::waitall;
    int (*waitsome)(int, MPI_Request*, int*, int*, MPI_Status*) = complete::waitsome;
    int (*test)(MPI_Request*, int*, MPI_Status*) = complete::test;
    int (*testany)(int, MPI_Request*, int*, int*, MPI_Status*) = complete::testany;
    int (*testall)(int, MPI_Request*, int*, MPI_Status*) = complete::testall;
    int (*testsome)(int, MPI_Request*, int*, int*, MPI_Status*) = complete::testsome;
};
[[gnu::visibility("hidden")]] extern constinit Calls calls;

int start(MPI_Request* request);
int startall(int count, MPI_Request* requests);
int cancel(MPI_Request* request);
int free(MPI_Request* request);

}  // namespace swy::request::complete
