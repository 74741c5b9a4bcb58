// The sweep's cases of reading and writing of files. What was written is read back into a witness on the host,
// what is read was written from one.
#include "sweep.hpp"

namespace sweep {
namespace {

MPI_Offset place(const World& w) {
    return static_cast<MPI_Offset>(w.rank) * w.n;
}

// Puts the file's pointers where this rank's part begins (at the beginning in this rank's own file).
void rewind(const World& w, bool shared) {
    if (shared) {
        MPI_File_seek_shared(w.own, 0, MPI_SEEK_SET);
        MPI_File_seek_shared(w.file, 0, MPI_SEEK_SET);
    } else {
        MPI_File_seek(w.own, 0, MPI_SEEK_SET);
        MPI_File_seek(w.file, place(w), MPI_SEEK_SET);
    }
}

void flush(const World& w) {
    MPI_File_sync(w.file);
    MPI_File_sync(w.own);
    MPI_Barrier(w.comm);
    MPI_File_sync(w.file);
}

void count(const MPI_Status& status, int* into) {
    MPI_Get_count(&status, MPI_INT, into);
}

// Both files hold witness 2 before; after the call witness 1 holds this rank's part of both, witness 3 the status.
template <typename Write>
int write(const World& w, int* const* b, bool shared, Write function) {
    MPI_File_write_at(w.file, place(w), b[2], w.n, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_at(w.own, 0, b[2], w.n, MPI_INT, MPI_STATUS_IGNORE);
    flush(w);
    rewind(w, shared);
    MPI_Status status;
    const int code = function(b[0], &status);
    count(status, b[3]);
    flush(w);
    MPI_File_read_at(w.file, place(w), b[1], w.n, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_at(w.own, 0, b[1] + w.n, w.n, MPI_INT, MPI_STATUS_IGNORE);
    return code;
}

template <typename Read>
int read(const World& w, int* const* b, bool shared, Read function) {
    MPI_File_write_at(w.file, place(w), b[1], w.n, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_at(w.own, 0, b[1] + w.n, w.n, MPI_INT, MPI_STATUS_IGNORE);
    flush(w);
    rewind(w, shared);
    MPI_Status status;
    const int code = function(b[0], &status);
    count(status, b[3]);
    return code;
}

Ints lengths(const World& w) {
    return {w.n, 2 * w.n, w.n, 1};
}

// A short access: the end of the buffer stays.
int some(const World& w) {
    return w.n - 3;
}

Case file_case(const char* name, bool shared, int (*run)(const World&, int* const*)) {
    return {name, shared ? "shared pointer" : "", 1, lengths, run};
}

template <int (*kFunction)(MPI_File, MPI_Offset, const void*, int, MPI_Datatype, MPI_Status*)>
int write_at(const World& w, int* const* b) {
    return write(w, b, false,
                 [&](int* data, MPI_Status* s) { return kFunction(w.file, place(w), data, some(w), MPI_INT, s); });
}
template <int (*kFunction)(MPI_File, MPI_Offset, void*, int, MPI_Datatype, MPI_Status*)>
int read_at(const World& w, int* const* b) {
    return read(w, b, false,
                [&](int* data, MPI_Status* s) { return kFunction(w.file, place(w), data, some(w), MPI_INT, s); });
}

// With the shared pointer the order of ranks is open, but for the ordered forms: each writes to a file of its own then.
template <int (*kFunction)(MPI_File, const void*, int, MPI_Datatype, MPI_Status*), bool kShared, bool kOwn>
int write_here(const World& w, int* const* b) {
    return write(w, b, kShared,
                 [&](int* data, MPI_Status* s) { return kFunction(kOwn ? w.own : w.file, data, some(w), MPI_INT, s); });
}
template <int (*kFunction)(MPI_File, void*, int, MPI_Datatype, MPI_Status*), bool kShared, bool kOwn>
int read_here(const World& w, int* const* b) {
    return read(w, b, kShared,
                [&](int* data, MPI_Status* s) { return kFunction(kOwn ? w.own : w.file, data, some(w), MPI_INT, s); });
}

// The blocking form of one that leaves a request.
template <auto kFunction, typename Data>
int waited_at(MPI_File file, MPI_Offset offset, Data* data, int count, MPI_Datatype type, MPI_Status* status) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = kFunction(file, offset, data, count, type, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
}
template <auto kFunction, typename Data>
int waited_here(MPI_File file, Data* data, int count, MPI_Datatype type, MPI_Status* status) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = kFunction(file, data, count, type, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
}

// The same for a split collective.
template <auto kBegin, auto kEnd, typename Data>
int split_at(MPI_File file, MPI_Offset offset, Data* data, int count, MPI_Datatype type, MPI_Status* status) {
    const int code = kBegin(file, offset, data, count, type);
    return code == MPI_SUCCESS ? kEnd(file, data, status) : code;
}
template <auto kBegin, auto kEnd, typename Data>
int split_here(MPI_File file, Data* data, int count, MPI_Datatype type, MPI_Status* status) {
    const int code = kBegin(file, data, count, type);
    return code == MPI_SUCCESS ? kEnd(file, data, status) : code;
}

}  // namespace

std::vector<Case> file_cases() {
    return {
        file_case("MPI_File_write_at", false, write_at<MPI_File_write_at>),
        file_case("MPI_File_write_at_all", false, write_at<MPI_File_write_at_all>),
        file_case("MPI_File_write", false, write_here<MPI_File_write, false, false>),
        file_case("MPI_File_write_all", false, write_here<MPI_File_write_all, false, false>),
        file_case("MPI_File_write_shared", true, write_here<MPI_File_write_shared, true, true>),
        file_case("MPI_File_write_ordered", true, write_here<MPI_File_write_ordered, true, false>),
        file_case("MPI_File_read_at", false, read_at<MPI_File_read_at>),
        file_case("MPI_File_read_at_all", false, read_at<MPI_File_read_at_all>),
        file_case("MPI_File_read", false, read_here<MPI_File_read, false, false>),
        file_case("MPI_File_read_all", false, read_here<MPI_File_read_all, false, false>),
        file_case("MPI_File_read_shared", true, read_here<MPI_File_read_shared, true, true>),
        file_case("MPI_File_read_ordered", true, read_here<MPI_File_read_ordered, true, false>),
        file_case("MPI_File_iwrite_at", false, write_at<waited_at<MPI_File_iwrite_at, const void>>),
        file_case("MPI_File_iwrite_at_all", false, write_at<waited_at<MPI_File_iwrite_at_all, const void>>),
        file_case("MPI_File_iwrite", false, write_here<waited_here<MPI_File_iwrite, const void>, false, false>),
        file_case("MPI_File_iwrite_all", false, write_here<waited_here<MPI_File_iwrite_all, const void>, false, false>),
        file_case("MPI_File_iwrite_shared", true,
                  write_here<waited_here<MPI_File_iwrite_shared, const void>, true, true>),
        file_case("MPI_File_iread_at", false, read_at<waited_at<MPI_File_iread_at, void>>),
        file_case("MPI_File_iread_at_all", false, read_at<waited_at<MPI_File_iread_at_all, void>>),
        file_case("MPI_File_iread", false, read_here<waited_here<MPI_File_iread, void>, false, false>),
        file_case("MPI_File_iread_all", false, read_here<waited_here<MPI_File_iread_all, void>, false, false>),
        file_case("MPI_File_iread_shared", true, read_here<waited_here<MPI_File_iread_shared, void>, true, true>),
        file_case("MPI_File_write_at_all_begin", false,
                  write_at<split_at<MPI_File_write_at_all_begin, MPI_File_write_at_all_end, const void>>),
        file_case("MPI_File_write_all_begin", false,
                  write_here<split_here<MPI_File_write_all_begin, MPI_File_write_all_end, const void>, false, false>),
        file_case(
            "MPI_File_write_ordered_begin", true,
            write_here<split_here<MPI_File_write_ordered_begin, MPI_File_write_ordered_end, const void>, true, false>),
        file_case("MPI_File_read_at_all_begin", false,
                  read_at<split_at<MPI_File_read_at_all_begin, MPI_File_read_at_all_end, void>>),
        file_case("MPI_File_read_all_begin", false,
                  read_here<split_here<MPI_File_read_all_begin, MPI_File_read_all_end, void>, false, false>),
        file_case("MPI_File_read_ordered_begin", true,
                  read_here<split_here<MPI_File_read_ordered_begin, MPI_File_read_ordered_end, void>, true, false>),
    };
}

}  // namespace sweep
