// MPI-IO on host and on device memory, with both of Open MPI's implementations. They call MPI inside MPI (Bcast,
// Allreduce, Comm_dup, Barrier), by the symbols that Switchyard defines: those calls are theirs, not the program's.
//
// launch: -n 2 --mca io ompio -- host
// launch: -n 3 --gpus 3 --mca io ompio -- device
// launch: -n 2 --mca io ^ompio -- host
// launch: -n 3 --gpus 3 --mca io ^ompio -- device
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "device_memory.h"

namespace {

bool on_device = false;
int failures = 0;
constexpr int kCount = 30000;

void expect(bool right, const char* what) {
    if (right)
        return;
    std::fprintf(stderr, "%s: wrong\n", what);
    failures++;
}

void must(int code, const char* what) {
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

int* make(const std::vector<int>& values) {
    const std::size_t bytes = values.size() * sizeof(int);
    void* memory = on_device ? device_alloc(bytes) : std::malloc(bytes);
    if (on_device)
        device_copy(memory, values.data(), bytes);
    else
        std::copy(values.begin(), values.end(), static_cast<int*>(memory));
    return static_cast<int*>(memory);
}

std::vector<int> look(const int* memory) {
    std::vector<int> values(kCount);
    if (on_device)
        device_copy(values.data(), memory, kCount * sizeof(int));
    else
        values.assign(memory, memory + kCount);
    return values;
}

std::vector<int> pattern(int rank) {
    std::vector<int> values(kCount);
    for (int i = 0; i < kCount; i++)
        values[static_cast<std::size_t>(i)] = rank * 100000 + i;
    return values;
}

// Each rank's numbers stand interleaved in the file: the collective calls must exchange them.
void interleaved(MPI_File file, int rank, int size) {
    MPI_Datatype every = MPI_DATATYPE_NULL;
    MPI_Type_vector(kCount, 1, size, MPI_INT, &every);
    MPI_Type_commit(&every);
    must(MPI_File_set_view(file, rank * static_cast<MPI_Offset>(sizeof(int)), MPI_INT, every, "native", MPI_INFO_NULL),
         "set_view");
    int* mine = make(pattern(rank));
    MPI_Status status;
    int written = 0;
    must(MPI_File_write_all(file, mine, kCount, MPI_INT, &status), "MPI_File_write_all");
    MPI_Get_count(&status, MPI_INT, &written);
    expect(written == kCount, "the count that MPI_File_write_all tells");
    must(MPI_File_sync(file), "sync");
    int* back = make(std::vector<int>(kCount));
    must(MPI_File_seek(file, 0, MPI_SEEK_SET), "seek");
    must(MPI_File_read_all(file, back, kCount, MPI_INT, MPI_STATUS_IGNORE), "MPI_File_read_all");
    expect(look(back) == pattern(rank), "MPI_File_read_all");
    MPI_Type_free(&every);
}

void read_plainly(MPI_File file, int rank, int size) {
    must(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), "set_view");
    int* part = make(std::vector<int>(kCount));
    must(MPI_File_read_at(file, static_cast<MPI_Offset>(rank) * kCount, part, kCount, MPI_INT, MPI_STATUS_IGNORE),
         "MPI_File_read_at");
    std::vector<int> expected(kCount);
    for (int i = 0; i < kCount; i++) {
        const int place = rank * kCount + i;
        expected[static_cast<std::size_t>(i)] = place % size * 100000 + place / size;
    }
    expect(look(part) == expected, "the file's content");
}

}  // namespace

int main(int argc, char** argv) {
    on_device = argc > 1 && argv[1] == std::string_view("device");
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::string path =
        std::string(std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp") + "/switchyard-io-XXXXXX";
    if (rank == 0) {
        const int made = mkstemp(path.data());
        if (made < 0)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_File file = MPI_FILE_NULL;
    must(MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file),
         "open");
    interleaved(file, rank, size);
    MPI_Barrier(MPI_COMM_WORLD);
    read_plainly(file, rank, size);
    must(MPI_File_close(&file), "close");
    MPI_Finalize();
    return failures != 0;
}
