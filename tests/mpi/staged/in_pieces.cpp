// Large reading and writing of files from and to device memory, which is made in pieces, against what host memory reads
// and writes, and arithmetic. With "threads", threads may all call MPI: calls with the file's pointer are whole then.
// With "failing", a copy of one rank's fails: the others' data is there, and so is that of the next call.
// clang-format off
// launch: -n 2 --gpus 2
// launch: -n 3 --gpus 1 -x VGPU_JITTER=5
// launch: -n 1 --gpus 1 -x SWITCHYARD_PINNED_POOL=0
// launch: -n 3 --gpus 2 -x VGPU_FAULTS=cuMemcpyAsync[1]@1=CUDA_ERROR_ECC_UNCORRECTABLE -- failing
// launch: -n 3 --gpus 2 -x VGPU_FAULTS=cuMemcpyAsync[1]@3=CUDA_ERROR_ECC_UNCORRECTABLE -- failing
// launch: -n 2 --gpus 2 -x VGPU_FAULTS=cuMemcpyAsync[1]@5=CUDA_ERROR_ECC_UNCORRECTABLE -- failing
// launch: -n 2 --gpus 2 -x VGPU_FAULTS=cuMemcpyAsync[1]@8=CUDA_ERROR_ECC_UNCORRECTABLE -- failing
// clang-format on
// test-timeout: 120
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr std::size_t kInt = sizeof(int);
constexpr int kElementary = 3000;  // ints
constexpr int kUntouched = -7;
int rank = 0, size = 0, failures = 0;
std::string path;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: rank %d of %d: %s\n", rank, size, what.c_str());
    ++failures;
}

// What a rank has at a place of its data.
int value(int of, int i) {
    return of * 100000000 + i;
}

std::vector<std::byte> bytes_of(const std::vector<int>& ints) {
    std::vector<std::byte> bytes(ints.size() * kInt);
    std::memcpy(bytes.data(), ints.data(), bytes.size());
    return bytes;
}

// Memory for `count` elements of `each` ints, `extent` ints apart.
struct Shape {
    int count, each, extent;
    int data() const { return count * each; }
    std::vector<int> filled(int first) const {
        std::vector<int> all(static_cast<std::size_t>(count * extent), kUntouched);
        for (int i = 0; i < data(); ++i)
            all[static_cast<std::size_t>(i / each * extent + i % each)] = value(rank, first + i);
        return all;
    }
};

struct Type {
    explicit Type(const Shape& shape) {
        MPI_Datatype part = MPI_DATATYPE_NULL;
        MPI_Type_contiguous(shape.each, MPI_INT, &part);
        MPI_Type_create_resized(part, 0, static_cast<MPI_Aint>(shape.extent * static_cast<int>(kInt)), &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&part);
    }
    ~Type() { MPI_Type_free(&type); }
    MPI_Datatype type = MPI_DATATYPE_NULL;
};

// A file whose elementary types, of many ints, are the ranks' in turns.
struct File {
    File() {
        MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                      MPI_INFO_NULL, &file);
        MPI_File_set_size(file, 0);
        MPI_Type_contiguous(kElementary, MPI_INT, &elementary);
        MPI_Type_create_resized(elementary, 0, static_cast<MPI_Aint>(size) * kElementary * static_cast<MPI_Aint>(kInt),
                                &turns);
        MPI_Type_commit(&elementary);
        MPI_Type_commit(&turns);
        MPI_File_set_view(file, static_cast<MPI_Offset>(rank) * kElementary * static_cast<MPI_Offset>(kInt), elementary,
                          turns, "native", MPI_INFO_NULL);
    }
    ~File() {
        MPI_File_close(&file);
        MPI_Type_free(&elementary);
        MPI_Type_free(&turns);
    }
    // Another rank may still write what this one has passed to a collective call.
    void settle() const {
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_sync(file);
    }
    // What this rank has in the file, by host memory.
    std::vector<int> content(MPI_Offset at, int ints) const {
        std::vector<int> all(static_cast<std::size_t>(ints), kUntouched);
        MPI_File_read_at(file, at, all.data(), ints, MPI_INT, MPI_STATUS_IGNORE);
        return all;
    }
    MPI_File file = MPI_FILE_NULL;
    MPI_Datatype elementary = MPI_DATATYPE_NULL, turns = MPI_DATATYPE_NULL;
};

bool has(const std::vector<int>& found, int first) {
    for (std::size_t i = 0; i < found.size(); ++i)
        if (found[i] != value(rank, first + static_cast<int>(i)))
            return false;
    return true;
}

// Reads and writes at a place, with the rank's pointer, with all ranks, and in atomic mode, which is not made in
// pieces.
enum class Way { kAt, kPointer, kAllAt, kAllPointer, kAtomic, kAllAtomic };
bool with_all(Way way) {
    return way == Way::kAllAt || way == Way::kAllPointer || way == Way::kAllAtomic;
}
bool by_pointer(Way way) {
    return way == Way::kPointer || way == Way::kAllPointer;
}

int write(Way way, MPI_File file, MPI_Offset at, const void* data, int count, MPI_Datatype type, MPI_Status* status) {
    if (way == Way::kPointer)
        return MPI_File_write(file, data, count, type, status);
    if (way == Way::kAllPointer)
        return MPI_File_write_all(file, data, count, type, status);
    return with_all(way) ? MPI_File_write_at_all(file, at, data, count, type, status)
                         : MPI_File_write_at(file, at, data, count, type, status);
}

int read(Way way, MPI_File file, MPI_Offset at, void* data, int count, MPI_Datatype type, MPI_Status* status) {
    if (way == Way::kPointer)
        return MPI_File_read(file, data, count, type, status);
    if (way == Way::kAllPointer)
        return MPI_File_read_all(file, data, count, type, status);
    return with_all(way) ? MPI_File_read_at_all(file, at, data, count, type, status)
                         : MPI_File_read_at(file, at, data, count, type, status);
}

void round_trip(gpu::Kind kind, const Shape& shape, Way way) {
    constexpr MPI_Offset kAt = 5;  // elementary types before the data
    const std::string what = std::string(gpu::name(kind)) + " memory, " + std::to_string(shape.count) +
                             " elements of " + std::to_string(shape.each) + " in " + std::to_string(shape.extent) +
                             " ints, way " + std::to_string(static_cast<int>(way)) + ": ";
    const File file;
    const Type type(shape);
    MPI_File_set_atomicity(file.file, way == Way::kAtomic || way == Way::kAllAtomic ? 1 : 0);
    const gpu::Memory given(kind, bytes_of(shape.filled(0)));
    gpu::Driver::get().synchronize();
    MPI_Status status;
    int count = -1;
    MPI_File_seek(file.file, kAt, MPI_SEEK_SET);
    const int wrote = write(way, file.file, kAt, given.address(), shape.count, type.type, &status);
    MPI_Get_count(&status, type.type, &count);
    expect(wrote == MPI_SUCCESS && count == shape.count, what + "written: " + std::to_string(count));
    MPI_Offset position = 0;
    MPI_File_get_position(file.file, &position);
    expect(position == kAt + (by_pointer(way) ? shape.data() / kElementary : 0), what + "the pointer after writing");
    file.settle();
    expect(has(file.content(kAt, shape.data()), 0), what + "what the file has");

    // The last half of the elements, and as many behind the end of the file, of which Open MPI tells in a collective
    // call that they have been read.
    const int skipped = shape.count / 2 / kElementary * kElementary, there = shape.count - skipped;
    const MPI_Offset from = kAt + skipped * shape.each / kElementary;
    const Shape twice{(with_all(way) ? 1 : 2) * there, shape.each, shape.extent};
    gpu::Memory got(kind, bytes_of(std::vector<int>(static_cast<std::size_t>(twice.count * twice.extent), kUntouched)));
    gpu::Driver::get().synchronize();
    MPI_File_seek(file.file, from, MPI_SEEK_SET);
    const int code = read(way, file.file, from, got.address(), twice.count, type.type, &status);
    MPI_Get_count(&status, type.type, &count);
    expect(code == MPI_SUCCESS && count == there, what + "read: " + std::to_string(count));
    std::vector<int> wanted = twice.filled(skipped * shape.each);
    std::fill(wanted.begin() + there * twice.extent, wanted.end(), kUntouched);
    expect(got.read() == bytes_of(wanted), what + "what has been read");
    MPI_File_get_position(file.file, &position);
    expect(position == from + (by_pointer(way) ? twice.data() / kElementary : 0), what + "the pointer after reading");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file.file, kAt, got.address(), there, type.type, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

const Shape in_runs{5001000, 1, 1}, with_gaps{1101000, 4, 5}, short_ones{3000, 3, 3}, nothing{0, 1, 1};

// Ranks with memory of other kinds and other lengths of data, in one collective call.
void mixed(Way way, std::size_t turn) {
    const gpu::Kind kinds[] = {gpu::Kind::kDevice, gpu::Kind::kHost, gpu::Kind::kManaged};
    const Shape shapes[] = {in_runs, short_ones, with_gaps, nothing};
    const auto me = static_cast<std::size_t>(rank);
    const gpu::Kind kind = kinds[(me + turn) % 3];
    const Shape shape = shapes[(me + turn / 3) % 4];
    const std::string what = "turn " + std::to_string(turn) + ", way " + std::to_string(static_cast<int>(way)) + ": ";
    const File file;
    const Type type(shape);
    const gpu::Memory given(kind, bytes_of(shape.filled(0)));
    gpu::Memory got(kind, bytes_of(std::vector<int>(static_cast<std::size_t>(shape.count * shape.extent), kUntouched)));
    gpu::Driver::get().synchronize();
    MPI_Status status;
    int written = -1, came = -1;
    const int wrote = write(way, file.file, 0, given.address(), shape.count, type.type, &status);
    MPI_Get_count(&status, type.type, &written);
    expect(wrote == MPI_SUCCESS && written == shape.count, what + "written: " + std::to_string(written));
    file.settle();
    expect(has(file.content(0, shape.data()), 0), what + "what the file has");
    MPI_File_seek(file.file, 0, MPI_SEEK_SET);
    const int code = read(way, file.file, 0, got.address(), shape.count, type.type, &status);
    MPI_Get_count(&status, type.type, &came);
    expect(code == MPI_SUCCESS && came == shape.count, what + "read: " + std::to_string(came));
    expect(got.read() == bytes_of(shape.filled(0)), what + "what has been read");
}

// One copy of a rank's fails: its call alone has an error.
void failing() {
    const File file;
    const Shape shape = in_runs;
    const auto untouched = bytes_of(std::vector<int>(static_cast<std::size_t>(shape.data()), kUntouched));
    const gpu::Memory given(gpu::Kind::kDevice, bytes_of(shape.filled(0)));
    int errors = 0;
    for (int round = 0; round < 2; ++round) {
        const gpu::Memory got(gpu::Kind::kDevice, untouched);
        gpu::Driver::get().synchronize();
        const std::string what = "round " + std::to_string(round) + ": ";
        const int wrote = MPI_File_write_at_all(file.file, 0, given.address(), shape.count, MPI_INT, MPI_STATUS_IGNORE);
        const bool there = wrote == MPI_SUCCESS;
        file.settle();
        expect(!there || has(file.content(0, shape.data()), 0), what + "what the file has");
        const int code = MPI_File_read_at_all(file.file, 0, got.address(), shape.count, MPI_INT, MPI_STATUS_IGNORE);
        expect(!there || code != MPI_SUCCESS || got.read() == bytes_of(shape.filled(0)), what + "what has been read");
        errors += (there ? 0 : 1) + (code == MPI_SUCCESS ? 0 : 1);
        expect(round == 0 || errors <= 1, what + "one error is enough");
        expect(round == 0 || (there && code == MPI_SUCCESS), what + "calls after the fault");
    }
    expect(errors == (rank == 1 ? 1 : 0), std::to_string(errors) + " errors");
}

// Wrong arguments are MPI's to find, as with few elements.
void refused() {
    const File file;
    const gpu::Memory memory(gpu::Kind::kDevice, bytes_of(std::vector<int>(12000000, 1)));
    gpu::Driver::get().synchronize();
    const std::vector<int> on_host(12000000, 1);
    const auto class_with = [&](const void* data) {
        int found = MPI_SUCCESS;
        MPI_Error_class(MPI_File_write_at(file.file, -1, data, 12000000, MPI_INT, MPI_STATUS_IGNORE), &found);
        return found;
    };
    expect(class_with(memory.address()) == class_with(on_host.data()), "an offset of -1");
    expect(MPI_File_write_at(MPI_FILE_NULL, 0, memory.address(), 12000000, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "no file");
    const auto class_of = [](int code) {
        int found = MPI_SUCCESS;
        MPI_Error_class(code, &found);
        return found;
    };
    expect(class_of(MPI_File_write_at(file.file, 0, memory.address(), 12000000, MPI_DATATYPE_NULL,
                                      MPI_STATUS_IGNORE)) == MPI_ERR_TYPE,
           "no datatype");
    expect(class_of(MPI_File_write(file.file, memory.address(), -1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_COUNT,
           "a count of -1");
    // Elements that make no whole elementary types together.
    MPI_Datatype odd = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(7, MPI_BYTE, &odd);
    MPI_Type_commit(&odd);
    const int with_device =
        class_of(MPI_File_write_at(file.file, 0, memory.address(), 2000001, odd, MPI_STATUS_IGNORE));
    expect(with_device == class_of(MPI_File_write_at(file.file, 0, on_host.data(), 2000001, odd, MPI_STATUS_IGNORE)),
           "elements of 7 bytes");
    MPI_Type_free(&odd);
    MPI_File only_read = MPI_FILE_NULL;
    MPI_File_open(MPI_COMM_SELF, path.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &only_read);
    expect(MPI_File_write(only_read, memory.address(), 12000000, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "a file that may not be written");
    MPI_File_close(&only_read);
}

void all() {
    for (const gpu::Kind kind : {gpu::Kind::kHost, gpu::Kind::kDevice, gpu::Kind::kManaged})
        for (const Way way : {Way::kAt, Way::kPointer, Way::kAllAt, Way::kAllPointer})
            round_trip(kind, in_runs, way);
    for (const Way way : {Way::kAt, Way::kPointer, Way::kAllAt, Way::kAllPointer})
        round_trip(gpu::Kind::kDevice, with_gaps, way);
    for (const Way way : {Way::kAtomic, Way::kAllAtomic})
        round_trip(gpu::Kind::kDevice, in_runs, way);
    for (const Way way : {Way::kAt, Way::kAllAt})
        round_trip(gpu::Kind::kDevice, short_ones, way);
    if (size > 1)
        for (std::size_t turn = 0; turn < 12; ++turn)
            mixed(turn % 2 == 0 ? Way::kAllAt : Way::kAllPointer, turn);
    refused();
}

}  // namespace

int main(int argc, char** argv) {
    int level = MPI_THREAD_SINGLE;
    const std::string_view mode = argc > 1 ? argv[1] : "";
    const bool threads = mode == "threads";
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    if (threads && level != MPI_THREAD_MULTIPLE)
        return 77;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    std::array<char, 64> folder{"/tmp/in_pieces-XXXXXX"};
    if (rank == 0 && mkdtemp(folder.data()) == nullptr)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(folder.data(), folder.size(), MPI_CHAR, 0, MPI_COMM_WORLD);
    path = std::string(folder.data()) + "/file";
    if (mode == "failing")
        failing();
    else
        all();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        rmdir(folder.data());
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
