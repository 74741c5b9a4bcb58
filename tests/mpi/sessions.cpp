// Device buffers work on the communicators of MPI sessions (MPI 4.0 section 11.3), without MPI_Init and beside it in
// any order; an MPI without sessions skips this.
// clang-format off
// launch: -n 2 --gpus 2
// launch: -n 3 --gpus 2
// launch: -n 2 --gpus 2 -- --world-first
// launch: -n 3 --gpus 3 -- --world-first --world-ends-first
// launch: -n 2 --gpus 2 -- --world-later
// launch: -n 2 --gpus 2 -- --world-later --world-ends-first
// launch: -n 2 --gpus 2 -- --two-sessions
// test-timeout: 60
// clang-format on

#include <mpi.h>

#ifndef MPI_SESSION_NULL
int main() {
    return 77;  // the test frame's "skipped"
}
#else

#include <cstdio>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gpu.hpp"

namespace {

constexpr int kSmall = 100, kLarge = 150000;
int failures = 0, errors_seen = 0;

void expect(bool good, const char* phase, const char* what) {
    if (good)
        return;
    ++failures;
    std::fprintf(stderr, "%s: %s\n", phase, what);
}

std::vector<std::byte> doubles(int count, double value) {
    const std::vector<double> values(static_cast<std::size_t>(count), value);
    std::vector<std::byte> bytes(values.size() * sizeof(double));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

void count_error(MPI_Comm*, int*, ...) {
    ++errors_seen;
}

void collectives(MPI_Comm comm, const char* phase) {
    int rank = 0, size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (const int count : {kSmall, kLarge}) {
        const gpu::Memory mine(gpu::Kind::kDevice, doubles(count, rank + 1)),
            sum(gpu::Kind::kDevice, doubles(count, 0));
        expect(MPI_Allreduce(mine.at(0), sum.at(0), count, MPI_DOUBLE, MPI_SUM, comm) == MPI_SUCCESS &&
                   sum.read() == doubles(count, size * (size + 1) / 2),
               phase, "MPI_Allreduce");
        // The root alone has device memory.
        const gpu::Memory data(rank == 0 ? gpu::Kind::kDevice : gpu::Kind::kHost, doubles(count, rank == 0 ? 7 : 0));
        expect(MPI_Bcast(data.at(0), count, MPI_DOUBLE, 0, comm) == MPI_SUCCESS && data.read() == doubles(count, 7),
               phase, "MPI_Bcast");
    }
}

void messages(MPI_Comm comm, const char* phase) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    const gpu::Memory data(gpu::Kind::kDevice, doubles(kLarge, rank == 0 ? 5 : 0));
    if (rank == 0)
        expect(MPI_Send(data.at(0), kLarge, MPI_DOUBLE, 1, 3, comm) == MPI_SUCCESS, phase, "MPI_Send");
    if (rank == 1)
        expect(MPI_Recv(data.at(0), kLarge, MPI_DOUBLE, 0, 3, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
                   data.read() == doubles(kLarge, 5),
               phase, "MPI_Recv");
}

// A call that cannot be made on device memory is an error of the communicator's, never a fault inside MPI.
void nonblocking(MPI_Comm comm, const char* phase) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    int size = 0;
    MPI_Comm_size(comm, &size);
    const gpu::Memory ones(gpu::Kind::kDevice, doubles(kSmall, 1)), sum(gpu::Kind::kDevice, doubles(kSmall, 0));
    MPI_Request request = MPI_REQUEST_NULL;
    errors_seen = 0;
    const int rc = MPI_Iallreduce(ones.at(0), sum.at(0), kSmall, MPI_DOUBLE, MPI_SUM, comm, &request);
    if (rc == MPI_SUCCESS) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(sum.read() == doubles(kSmall, size), phase, "MPI_Iallreduce");
    } else {
        char text[MPI_MAX_ERROR_STRING] = {};
        int length = 0;
        MPI_Error_string(rc, text, &length);
        expect(std::string(text).find("MPI_Iallreduce") != std::string::npos, phase, text);
        expect(errors_seen == 1, phase, "the communicator's error handler was not called once");
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
}

MPI_Comm communicator(MPI_Session session, const char* tag) {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

void all(MPI_Comm comm, const char* phase) {
    collectives(comm, phase);
    messages(comm, phase);
    nonblocking(comm, phase);
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &copy);
    collectives(copy, phase);
    MPI_Comm_free(&copy);
}

}  // namespace

int main(int argc, char** argv) {
    const std::set<std::string> options(argv + 1, argv + argc);
    const bool first = options.count("--world-first") != 0, world = first || options.count("--world-later") != 0;
    const bool world_ends_first = options.count("--world-ends-first") != 0;
    if (first)
        MPI_Init(&argc, &argv);
    MPI_Session session = MPI_SESSION_NULL, other = MPI_SESSION_NULL;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm comm = communicator(session, "org.switchyard.test");
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    all(comm, "with the first session");
    if (options.count("--two-sessions") != 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other);
        MPI_Comm second = communicator(other, "org.switchyard.test.other");
        all(second, "with two sessions");
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
        all(second, "after the first session has ended");
        comm = second;
        session = other;
    }
    if (world) {
        if (!first)
            MPI_Init(&argc, &argv);
        all(comm, "a session's communicator beside MPI_COMM_WORLD");
        all(MPI_COMM_WORLD, "MPI_COMM_WORLD beside a session");
    }
    if (world && world_ends_first) {
        MPI_Finalize();
        all(comm, "after MPI_Finalize");
    }
    int worst = 0;
    MPI_Allreduce(&failures, &worst, 1, MPI_INT, MPI_MAX, comm);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    if (world && !world_ends_first) {
        all(MPI_COMM_WORLD, "after the last session");
        MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Finalize();
    }
    return worst == 0 && failures == 0 ? 0 : 1;
}
#endif
