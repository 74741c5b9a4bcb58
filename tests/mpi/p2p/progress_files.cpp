// Collective calls on files.
#include "progress.hpp"

namespace progress_test {
namespace {

void open(Scene& s) {
    MPI_File_open(s.comm, s.path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &s.file);
}
void open_and_fill(Scene& s) {
    open(s);
    MPI_File_write_at_all(s.file, MPI_Offset{s.rank} * 64, s.out.data(), 16, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_seek(s.file, 0, MPI_SEEK_SET);
}
void close(Scene& s) {
    MPI_File_close(&s.file);
}

const Row kRows[] = {
    {"File_open", open, nullptr, close, false},
    {"File_write_all", [](Scene& s) { MPI_File_write_all(s.file, s.out.data(), 16, MPI_INT, MPI_STATUS_IGNORE); }, open,
     close, false},
    {"File_write_at_all",
     [](Scene& s) {
         MPI_File_write_at_all(s.file, MPI_Offset{s.rank} * 64, s.out.data(), 16, MPI_INT, MPI_STATUS_IGNORE);
     },
     open, close, false},
    {"File_write_ordered",
     [](Scene& s) { MPI_File_write_ordered(s.file, s.out.data(), 16, MPI_INT, MPI_STATUS_IGNORE); }, open, close,
     false},
    {"File_read_all", [](Scene& s) { MPI_File_read_all(s.file, s.in.data(), 16, MPI_INT, MPI_STATUS_IGNORE); },
     open_and_fill, close, false},
    {"File_read_at_all", [](Scene& s) { MPI_File_read_at_all(s.file, 0, s.in.data(), 16, MPI_INT, MPI_STATUS_IGNORE); },
     open_and_fill, close, false},
    {"File_read_ordered", [](Scene& s) { MPI_File_read_ordered(s.file, s.in.data(), 4, MPI_INT, MPI_STATUS_IGNORE); },
     open_and_fill, close, false},
    {"File_write_all_begin and _end",
     [](Scene& s) {
         MPI_File_write_all_begin(s.file, s.out.data(), 16, MPI_INT);
         MPI_File_write_all_end(s.file, s.out.data(), MPI_STATUS_IGNORE);
     },
     open, close, false},
    {"File_set_view", [](Scene& s) { MPI_File_set_view(s.file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL); }, open,
     close, false},
    {"File_set_size", [](Scene& s) { MPI_File_set_size(s.file, 4096); }, open, close, false},
    {"File_preallocate", [](Scene& s) { MPI_File_preallocate(s.file, 4096); }, open, close, false},
    {"File_sync", [](Scene& s) { MPI_File_sync(s.file); }, open_and_fill, close, false},
    {"File_close", close, open_and_fill, nullptr, false},
};

}  // namespace

std::span<const Row> file_rows() {
    return kRows;
}

}  // namespace progress_test
