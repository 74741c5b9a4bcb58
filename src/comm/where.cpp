#include "comm/where.hpp"

#include <fmt/format.h>

#include "call/comm_name.hpp"
#include "comm/state.hpp"
#include "error/error.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

std::string place(std::string_view call, int rank, const std::string& what, int size) {
    return fmt::format("{} on rank {} of {} ({} rank{})", call, rank, what, size, size == 1 ? "" : "s");
}

// Frees the group.
std::string place(std::string_view call, MPI_Group group, const std::string& what) {
    int rank = 0, size = 0;
    real::Group_rank(group, &rank);
    real::Group_size(group, &size);
    real::Group_free(&group);
    return place(call, rank, what, size);
}

std::string where(CallId call, MPI_Win win) {
    MPI_Group group = MPI_GROUP_NULL;
    if (win == MPI_WIN_NULL || real::Win_get_group(win, &group) != MPI_SUCCESS)
        return std::string(name(call));
    char text[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    real::Win_get_name(win, text, &length);
    return place(name(call), group, length > 0 ? text : "a window without name");
}

std::string where(CallId call, MPI_File file) {
    MPI_Group group = MPI_GROUP_NULL;
    if (file == MPI_FILE_NULL || real::File_get_group(file, &group) != MPI_SUCCESS)
        return std::string(name(call));
    return place(name(call), group, "a file");
}

}  // namespace

std::string where(CallId call, MPI_Comm comm) {
    return where(name(call), comm);
}

std::string where(std::string_view call, MPI_Comm comm) {
    if (comm == MPI_COMM_NULL || !lives(comm))
        return std::string(call);
    int rank = 0, size = 0;
    real::Comm_rank(comm, &rank);
    real::Comm_size(comm, &size);
    return place(call, rank, call::comm_name(comm), size);
}

std::string where(CallId call, const Owner& owner) {
    switch (owner.kind) {
        case Owner::Kind::kComm:
            return where(call, owner.comm);
        case Owner::Kind::kWin:
            return where(call, owner.win);
        case Owner::Kind::kFile:
            return where(call, owner.file);
        case Owner::Kind::kNone:
            break;
    }
    return std::string(name(call));
}

bool says_too_little(int code) {
    return code < 0 || code == MPI_ERR_OTHER || code == MPI_ERR_INTERN;
}

int with_place(CallId call, const Owner& owner, int code) {
    if (code < 0)
        return error::raise(owner, MPI_ERR_OTHER, fmt::format("{}: Open MPI's error {}", where(call, owner), code));
    if (!says_too_little(code))
        return code;
    return error::code(code, fmt::format("{}: {}", where(call, owner), error::text_of(code)));
}

}  // namespace swy::comm
