// What a program may do while communicators live and operations on device memory are under way. The first argument says
// what; ends.test runs each and looks at how it ends.
//   freed     frees the communicators of messages and collectives under way, then waits
//   callbacks passes device memory in the callbacks of attributes of communicators that are duplicated and freed
//   fork      starts processes meanwhile: one that runs another program, one that ends at once, one by system()
//   finalize  calls MPI_Finalize with live communicators and with requests that nobody completes
//   last      calls MPI_Finalize, in which an attribute of MPI_COMM_SELF passes device memory once more
//   exit      ends without MPI_Finalize
//   abort     rank 1 calls MPI_Abort
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

gpu::Memory filled(double value) {
    const std::vector<double> values(comm_test::kCount, value);
    std::vector<std::byte> bytes(values.size() * sizeof(double));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return gpu::Memory(gpu::Kind::kDevice, bytes);
}

void expect(const gpu::Memory& memory, double wanted, const char* what) {
    const std::vector<std::byte> bytes = memory.read();
    double found = 0;
    std::memcpy(&found, &bytes[bytes.size() - sizeof found], sizeof found);
    if (found == wanted)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: %s: %g, not %g\n", rank, what, found, wanted);
}

// Messages around the ring and a collective on a communicator of their own.
struct UnderWay {
    gpu::Memory sent = filled(rank + 1.0), came = filled(0.0), mine = filled(rank + 1.0), sum = filled(0.0);
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int left = (rank + size - 1) % size;

    void begin(MPI_Comm comm) {
        constexpr int kCount = comm_test::kCount;
        MPI_Irecv(came.at(0), kCount, MPI_DOUBLE, left, 1, comm, &requests[0]);
        MPI_Iallreduce(mine.at(0), sum.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm, &requests[1]);
        MPI_Isend(sent.at(0), kCount, MPI_DOUBLE, (rank + 1) % size, 1, comm, &requests[2]);
    }
    void end() {
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        expect(came, left + 1.0, "a message");
        expect(sum, size * (size + 1) / 2.0, "a sum");
    }
};

MPI_Comm used_duplicate() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    failures += comm_test::Use(comm, "a duplicate").just_sum();
    return comm;
}

void freed() {
    std::vector<std::unique_ptr<UnderWay>> all;
    for (int i = 0; i < 6; ++i) {
        MPI_Comm comm = used_duplicate();
        all.push_back(std::make_unique<UnderWay>());
        if ((rank + i) % size == 0)
            usleep(10000);
        all.back()->begin(comm);
        MPI_Comm_free(&comm);
    }
    for (const auto& one : all)
        one->end();
}

void wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) {
        ++failures;
        std::fprintf(stderr, "rank %d: a child ended with status %d\n", rank, status);
    }
}

void forks() {
    MPI_Comm comm = used_duplicate();
    for (int i = 0; i < 4; ++i) {
        UnderWay under_way;
        under_way.begin(comm);
        const pid_t other = fork();
        if (other == 0) {
            execlp("true", "true", nullptr);
            _exit(1);
        }
        const pid_t same = fork();
        if (same == 0)
            _exit(0);
        wait_for(other);
        wait_for(same);
        if (std::system("true") != 0)
            ++failures;
        under_way.end();
    }
    failures += comm_test::Use(comm, "after fork").all();
    MPI_Comm_free(&comm);
}

// Left as they are.
void leave_much() {
    MPI_Comm comm = used_duplicate();
    MPI_Comm other = used_duplicate();
    auto* under_way = new UnderWay;
    under_way->begin(comm);
    auto* unmatched = new gpu::Memory(filled(0.0));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(unmatched->at(0), comm_test::kCount, MPI_DOUBLE, MPI_ANY_SOURCE, 99, other, &request);
}

int copy_attribute(MPI_Comm comm, int, void*, void* value, void* copy, int* flag) {
    failures += comm_test::Use(comm, "in a copy callback").all();
    std::memcpy(copy, static_cast<void*>(&value), sizeof value);
    *flag = 1;
    return MPI_SUCCESS;
}

int delete_attribute(MPI_Comm comm, int, void*, void*) {
    failures += comm_test::Use(comm, "in a delete callback").all();
    return MPI_SUCCESS;
}

// Some have been used before the attribute is set, some after, some in its callbacks alone.
void callbacks() {
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, nullptr);
    for (int i = 0; i < 6; ++i) {
        MPI_Comm comm = MPI_COMM_NULL, copy = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
        failures += i % 3 == 0 ? comm_test::Use(comm, "before").just_sum() : 0;
        MPI_Comm_set_attr(comm, key, nullptr);
        failures += i % 3 == 1 ? comm_test::Use(comm, "after").just_sum() : 0;
        MPI_Comm_dup(comm, &copy);
        failures += i < 3 ? comm_test::Use(copy, "the copy").just_sum() : 0;
        MPI_Comm_free(&comm);
        MPI_Comm_free(&copy);
    }
    MPI_Comm_free_keyval(&key);
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF first, and MPI works in their callbacks (MPI 4.0
// section 11.2.4).
int use_once_more(MPI_Comm, int, void*, void*) {
    failures += comm_test::Use(MPI_COMM_WORLD, "in MPI_Finalize").all();
    failures += comm_test::Use(MPI_COMM_SELF, "alone in MPI_Finalize").all();
    std::fprintf(stderr, "rank %d: in MPI_Finalize\n", rank);
    return MPI_SUCCESS;
}

void leave_for_the_last() {
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, use_once_more, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
    MPI_Comm_free_keyval(&key);
    used_duplicate();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (what == "freed") {
        freed();
    } else if (what == "fork") {
        forks();
    } else if (what == "callbacks") {
        callbacks();
    } else if (what == "last") {
        leave_for_the_last();
    } else {
        leave_much();
        if (what == "exit")
            return 0;
        if (what == "abort") {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 1)
                MPI_Abort(MPI_COMM_WORLD, 42);
        }
    }
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere + failures == 0 ? 0 : 1;
}
