#include "staging/split.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "call/depth.hpp"
#include "comm/where.hpp"
#include "error/error.hpp"
#include "real.hpp"
#include "staging/staging.hpp"

namespace swy::staging {
namespace {

// A split collective that is under way.
struct Split {
    explicit Split(const Call& call) : id(call.id), buffer(call.operands[0].address), staging(call.id, call.owner) {}

    const CallId id;
    const void* const buffer;  // the program's
    Staging staging;
    Failure failure;  // of the copy to the host
};

std::mutex splits_mutex;

std::map<MPI_File, std::unique_ptr<Split>>& splits() {
    static auto* all = new std::map<MPI_File, std::unique_ptr<Split>>;  // not destroyed at exit
    return *all;
}

// Returns the file's, or nullptr. It stays valid: a program does not use a file from several threads before the end.
Split* split_of(MPI_File file) {
    const std::lock_guard lock(splits_mutex);
    const auto found = splits().find(file);
    return found != splits().end() ? found->second.get() : nullptr;
}

void keep(MPI_File file, std::unique_ptr<Split> split) {
    const std::lock_guard lock(splits_mutex);
    splits()[file] = std::move(split);
}

std::unique_ptr<Split> take(MPI_File file) {
    const std::lock_guard lock(splits_mutex);
    auto found = splits().extract(file);
    return std::move(found.mapped());
}

// The real functions, for a file that is closed.
int real_end(CallId id, MPI_File file, void* buffer) {
    switch (blocking_form(id)) {
        case CallId::kFileReadAtAll:
            return real::File_read_at_all_end(file, buffer, MPI_STATUS_IGNORE);
        case CallId::kFileWriteAtAll:
            return real::File_write_at_all_end(file, buffer, MPI_STATUS_IGNORE);
        case CallId::kFileReadAll:
            return real::File_read_all_end(file, buffer, MPI_STATUS_IGNORE);
        case CallId::kFileWriteAll:
            return real::File_write_all_end(file, buffer, MPI_STATUS_IGNORE);
        case CallId::kFileReadOrdered:
            return real::File_read_ordered_end(file, buffer, MPI_STATUS_IGNORE);
        default:
            return real::File_write_ordered_end(file, buffer, MPI_STATUS_IGNORE);
    }
}

// Makes the real call that ends it, and copies what has been read to the device.
int end(MPI_File file, Real real) {
    const std::unique_ptr<Split> split = take(file);
    const int rc = real(split->staging.operands());
    Failure failure = std::move(split->failure);
    if (!failure && !split->staging.none())
        failure = split->staging.copy_out(rc == MPI_SUCCESS);
    return failure && rc == MPI_SUCCESS ? error::raise(Owner(file), failure.mpi_class, failure.text()) : rc;
}

// Says what is wrong with the end of a split collective; "" where nothing is.
std::string mistake(const Call& call, const Split* split) {
    const void* buffer = call.operands[0].address;
    if (split == nullptr)
        return device::on_device(buffer) ? fmt::format(
                                               "{}: the buffer is device memory, and no split collective with "
                                               "device memory has been begun on this file",
                                               comm::where(call.id, call.owner))
                                         : "";
    if (blocking_form(split->id) != blocking_form(call.id))
        return fmt::format("{}: {} has been begun on this file, and must be ended first",
                           comm::where(call.id, call.owner), name(split->id));
    if (split->buffer != buffer)
        return fmt::format(
            "{}: the buffer is not the one that {} was given (MPI 4.0 section 14.4.5); pass that one: "
            "the operation is still under way",
            comm::where(call.id, call.owner), name(split->id));
    return "";
}

}  // namespace

int begin_split(const Call& call, Real real) {
    const call::Inside guard;
    if (const Split* other = split_of(call.owner.file))
        return error::raise(call, MPI_ERR_OTHER,
                            fmt::format("{}: {} has been begun on this file, and must be ended first (MPI 4.0 section "
                                        "14.4.5)",
                                        comm::where(call.id, call.owner), name(other->id)));
    auto split = std::make_unique<Split>(call);
    if (const Failure failure = split->staging.prepare(call))
        return error::raise(call, failure.mpi_class, failure.text());
    if (!split->staging.none())
        split->failure = split->staging.copy_in(Staging::Back::kLater);
    comm::Contribution nobody;
    if (split->failure)
        split->staging.go_on(nobody, split->failure);
    const int rc = real(split->staging.operands());
    if (rc == MPI_SUCCESS)
        keep(call.owner.file, std::move(split));
    return rc;
}

int end_split(const Call& call, Real real) {
    const call::Inside guard;
    const Split* split = split_of(call.owner.file);
    if (const std::string wrong = mistake(call, split); !wrong.empty())
        return error::raise(call, MPI_ERR_BUFFER, wrong);
    return split != nullptr ? end(call.owner.file, real) : real(call);
}

int end_split_of(MPI_File file) {
    const call::Inside guard;
    const Split* split = split_of(file);
    if (split == nullptr)
        return MPI_SUCCESS;
    return end(file, [id = split->id, file](const Operand* use) { return real_end(id, file, use->address); });
}

}  // namespace swy::staging
