// Split collectives on files: with device memory they leave in file, buffer and status what the same calls leave with
// host memory, for every layout and on ranks that mix both; a mistake is an MPI error that loses no data.
//
// launch: -n 1 --gpus 1 -- data
// launch: -n 2 --gpus 2 --mca io ompio -- data
// launch: -n 3 --gpus 3 --mca io ^ompio -- data
// launch: -n 4 --gpus 2 --mca io ompio -- data
// launch: -n 2 --gpus 2 --mca io ompio -- mistakes
// launch: -n 3 --gpus 3 --mca io ^ompio -- mistakes
// launch: -n 2 --gpus 2 -x VGPU_FAULTS=cuMemcpyAsync@1=CUDA_ERROR_ECC_UNCORRECTABLE -- failure
#include <mpi.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

namespace {

using Bytes = std::vector<std::byte>;

constexpr int kCount = 5000;  // elements of a rank
constexpr int kRead = kCount / 2;
constexpr std::size_t kSpan = 12;  // bytes of an element with its gaps, at most

int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
    ++failures;
}

void must(int code, const char* what) {
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

void expect_error(int code, int wanted, const char* part, const std::string& what) {
    int found = MPI_SUCCESS;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    expect(found == wanted && std::string_view(text).find(part) != std::string_view::npos,
           what + ": class " + std::to_string(found) + ", " + text);
}

enum class Place { kExplicit, kOwnPointer, kSharedPointer };
constexpr Place kPlaces[] = {Place::kExplicit, Place::kOwnPointer, Place::kSharedPointer};
const char* const kNames[] = {"at_all", "all", "ordered"};

struct Layout {
    const char* name;
    MPI_Datatype type;
};

int begin_write(Place place, MPI_File file, const void* data, const Layout& layout) {
    switch (place) {
        case Place::kExplicit:
            return MPI_File_write_at_all_begin(file, MPI_Offset{rank} * kCount, data, kCount, layout.type);
        case Place::kOwnPointer:
            return MPI_File_write_all_begin(file, data, kCount, layout.type);
        default:
            return MPI_File_write_ordered_begin(file, data, kCount, layout.type);
    }
}

int end_write(Place place, MPI_File file, const void* data, MPI_Status* status) {
    return place == Place::kExplicit     ? MPI_File_write_at_all_end(file, data, status)
           : place == Place::kOwnPointer ? MPI_File_write_all_end(file, data, status)
                                         : MPI_File_write_ordered_end(file, data, status);
}

// Reads less than the buffer holds, and nothing behind the end of the file: there Open MPI 4.1's OMPIO, which reads
// by aio_read, does not end (seen in 4.1.4, in a host program alone, in split reads and in MPI_File_iread_at).
int begin_read(Place place, MPI_File file, void* data, const Layout& layout) {
    const MPI_Offset from = MPI_Offset{rank} * kCount + kCount / 3;
    if (place == Place::kExplicit)
        return MPI_File_read_at_all_begin(file, from, data, kRead, layout.type);
    if (place == Place::kOwnPointer) {
        MPI_File_seek(file, from, MPI_SEEK_SET);
        return MPI_File_read_all_begin(file, data, kRead, layout.type);
    }
    MPI_File_seek_shared(file, kCount / 3, MPI_SEEK_SET);
    return MPI_File_read_ordered_begin(file, data, kRead, layout.type);
}

int end_read(Place place, MPI_File file, void* data, MPI_Status* status) {
    return place == Place::kExplicit     ? MPI_File_read_at_all_end(file, data, status)
           : place == Place::kOwnPointer ? MPI_File_read_all_end(file, data, status)
                                         : MPI_File_read_ordered_end(file, data, status);
}

Bytes pattern(int salt) {
    Bytes content(kCount * kSpan);
    for (std::size_t i = 0; i < content.size(); ++i)
        content[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(salt * 13 + rank * 31));
    return content;
}

std::string folder;

MPI_File open(const char* name) {
    MPI_File file = MPI_FILE_NULL;
    must(MPI_File_open(MPI_COMM_WORLD, (folder + "/" + name).c_str(),
                       MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file),
         "MPI_File_open");
    must(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), "MPI_File_set_view");
    return file;
}

struct Outcome {
    Bytes file, read;
    int written = -1, got = -1;
    bool operator==(const Outcome&) const = default;
};

// Writes and reads the file with memory of a kind. The file's content is read with host memory.
Outcome run(Place place, const Layout& layout, gpu::Kind kind) {
    Outcome outcome;
    MPI_File file = open("data");
    MPI_Status status;
    {
        const gpu::Memory data(kind, pattern(1));
        MPI_File_seek(file, MPI_Offset{rank} * kCount, MPI_SEEK_SET);
        must(begin_write(place, file, data.at(0), layout), "begin of a write");
        must(end_write(place, file, data.at(0), &status), "end of a write");
        MPI_Get_count(&status, layout.type, &outcome.written);
    }
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    outcome.file.resize(static_cast<std::size_t>(size) * kCount * sizeof(int));
    must(MPI_File_read_at_all(file, 0, outcome.file.data(), size * kCount, MPI_INT, MPI_STATUS_IGNORE),
         "MPI_File_read_at_all");
    const gpu::Memory data(kind, pattern(2));
    must(begin_read(place, file, data.at(0), layout), "begin of a read");
    must(end_read(place, file, data.at(0), &status), "end of a read");
    MPI_Get_count(&status, MPI_INT, &outcome.got);
    outcome.read = data.read();
    must(MPI_File_close(&file), "MPI_File_close");
    return outcome;
}

void compare(const std::vector<Layout>& layouts) {
    for (const Place place : kPlaces)
        for (const Layout& layout : layouts) {
            const Outcome host = run(place, layout, gpu::Kind::kHost);
            expect(host.written == kCount, "the reference is short");
            const gpu::Kind even = rank % 2 == 0 ? gpu::Kind::kDevice : gpu::Kind::kHost;
            for (const gpu::Kind kind : {gpu::Kind::kDevice, gpu::Kind::kManaged, even})
                expect(run(place, layout, kind) == host,
                       std::string(kNames[static_cast<int>(place)]) + ", " + layout.name + ", " + gpu::name(kind));
        }
}

void mistakes(const Layout& ints) {
    for (const Place place : kPlaces) {
        const std::string what = kNames[static_cast<int>(place)];
        MPI_File file = open("mistakes");
        const gpu::Memory data(gpu::Kind::kDevice, pattern(3));
        const gpu::Memory other(gpu::Kind::kDevice, pattern(4));
        MPI_File_seek(file, MPI_Offset{rank} * kCount, MPI_SEEK_SET);
        expect_error(end_write(place, file, data.at(0), MPI_STATUS_IGNORE), MPI_ERR_BUFFER, "has been begun", what);
        must(begin_write(place, file, data.at(0), ints), "begin of a write");
        expect_error(begin_write(place, file, other.at(0), ints), MPI_ERR_OTHER, "must be ended first", what);
        expect_error(end_write(place, file, other.at(0), MPI_STATUS_IGNORE), MPI_ERR_BUFFER, "not the one", what);
        expect_error(end_read(place, file, data.at(0), MPI_STATUS_IGNORE), MPI_ERR_BUFFER, "must be ended first", what);
        must(end_write(place, file, data.at(0), MPI_STATUS_IGNORE), "end of a write");
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_sync(file);
        // What has not been ended is there when the file is closed, and a new file has none.
        gpu::Memory back(gpu::Kind::kDevice, pattern(4));
        must(MPI_File_read_at_all_begin(file, MPI_Offset{rank} * kCount, back.at(0), kCount, MPI_INT), "begin");
        must(MPI_File_close(&file), "MPI_File_close");
        Bytes expected = pattern(4);
        const Bytes written = pattern(3);
        std::copy(written.begin(), written.begin() + kCount * sizeof(int), expected.begin());
        expect(back.read() == expected, what + ": data read when the file was closed");
        file = open("mistakes");
        must(begin_write(place, file, data.at(0), ints), "begin on a file that was opened anew");
        must(end_write(place, file, data.at(0), MPI_STATUS_IGNORE), "its end");
        must(MPI_File_close(&file), "MPI_File_close");
    }
}

// The first copy to the host fails: the end says so, no rank waits for another, and the next operation has its data.
void failure(const Layout& ints) {
    MPI_File file = open("failure");
    const gpu::Memory data(gpu::Kind::kDevice, pattern(5));
    const MPI_Offset from = MPI_Offset{rank} * kCount;
    must(MPI_File_write_at_all_begin(file, from, data.at(0), kCount, ints.type), "begin");
    expect_error(MPI_File_write_at_all_end(file, data.at(0), MPI_STATUS_IGNORE), MPI_ERR_OTHER,
                 ("MPI_File_write_at_all_begin on rank " + std::to_string(rank) + " of a file (" +
                  std::to_string(size) + " ranks): copying the buffers from the device")
                     .c_str(),
                 "end after a failed copy");
    must(MPI_File_write_at_all_begin(file, from, data.at(0), kCount, ints.type), "second begin");
    must(MPI_File_write_at_all_end(file, data.at(0), MPI_STATUS_IGNORE), "second end");
    Bytes back(kCount * sizeof(int));
    must(MPI_File_read_at_all(file, from, back.data(), kCount, MPI_INT, MPI_STATUS_IGNORE), "MPI_File_read_at_all");
    const Bytes whole = pattern(5);
    expect(back == Bytes(whole.begin(), whole.begin() + kCount * sizeof(int)), "data after a failure");
    must(MPI_File_close(&file), "MPI_File_close");
}

// An int with gaps of 4 bytes before and after it.
MPI_Datatype with_gaps() {
    const int length = 1;
    const MPI_Aint at = 4;
    MPI_Datatype placed = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed(1, &length, &at, MPI_INT, &placed);
    MPI_Type_create_resized(placed, 0, kSpan, &type);
    MPI_Type_free(&placed);
    MPI_Type_commit(&type);
    return type;
}

void make_folder() {
    folder =
        std::string(std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp") + "/switchyard-split-XXXXXX";
    if (rank == 0 && mkdtemp(folder.data()) == nullptr)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Bcast(folder.data(), static_cast<int>(folder.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    make_folder();
    const std::string_view part = argc > 1 ? argv[1] : "data";
    const Layout ints{"ints", MPI_INT};
    Layout gaps{"ints with gaps", with_gaps()};
    if (part == "data")
        compare({ints, gaps});
    else if (part == "mistakes")
        mistakes(ints);
    else
        failure(ints);
    MPI_Type_free(&gaps.type);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        rmdir(folder.c_str());
    MPI_Finalize();
    return failures > 0 ? 1 : 0;
}
