#include "error/error.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "call/depth.hpp"
#include "error/loss.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::error {
namespace {

// MPI keeps error codes until MPI_Finalize, so each class gets kCodesPerClass codes at most, whose texts are reused in
// rotation: a program that reads an error's text before kCodesPerClass further errors of that class finds its own.
// MPI_Waitall may return many.
constexpr std::size_t kCodesPerClass = 256;
constexpr int kClasses = 96;  // Open MPI 5 has 93

struct Codes {
    std::array<int, kCodesPerClass> code{};
    std::size_t made = 0, next = 0;
};

std::mutex codes_mutex;
constinit std::array<Codes, kClasses> codes_of_class{};

int code_with(int mpi_class, const std::string& text) {
    if (mpi_class < 0 || mpi_class >= kClasses)
        return mpi_class;
    const std::scoped_lock lock(codes_mutex);
    Codes& codes = codes_of_class[static_cast<std::size_t>(mpi_class)];
    std::size_t slot = codes.next;
    if (slot == codes.made) {
        if (real::Add_error_code(mpi_class, &codes.code[slot]) != MPI_SUCCESS)
            return mpi_class;
        ++codes.made;
    }
    codes.next = (slot + 1) % kCodesPerClass;
    const std::string shown = text.substr(0, MPI_MAX_ERROR_STRING - 1);
    real::Add_error_string(codes.code[slot], shown.c_str());
    return codes.code[slot];
}

enum class Handling { kReturns, kEndsJob, kPrograms };

Handling done_by(MPI_Errhandler handler) {
    Handling handling = Handling::kPrograms;
    if (handler == MPI_ERRORS_RETURN)
        handling = Handling::kReturns;
    else if (handler == MPI_ERRORS_ARE_FATAL)
        handling = Handling::kEndsJob;
    if (handler != MPI_ERRHANDLER_NULL)
        real::Errhandler_free(&handler);
    return handling;
}

Handling handling_of(const Owner& owner) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    switch (owner.kind) {
        case Owner::Kind::kWin:
            real::Win_get_errhandler(owner.win, &handler);
            break;
        case Owner::Kind::kFile:
            real::File_get_errhandler(owner.file, &handler);
            break;
        default:
            real::Comm_get_errhandler(owner.comm, &handler);
    }
    return done_by(handler);
}

// MPI_COMM_WORLD's handler exists from MPI_Init to MPI_Finalize (MPI 4.0 section 9.3). Any other object has one for as
// long as it lives, and may come from a session, of which MPI_Initialized knows nothing.
bool has_handler(const Owner& owner) {
    if (owner.kind != Owner::Kind::kComm || (owner.comm != MPI_COMM_WORLD && owner.comm != MPI_COMM_SELF))
        return true;
    int up = 0, down = 0;
    real::Initialized(&up);
    real::Finalized(&down);
    return up && !down;
}

int through_handler(const Owner& owner, int code) {
    const call::Outside guard;
    switch (owner.kind) {
        case Owner::Kind::kWin:
            return real::Win_call_errhandler(owner.win, code);
        case Owner::Kind::kFile:
            return real::File_call_errhandler(owner.file, code);
        default:
            return real::Comm_call_errhandler(owner.comm, code);
    }
}

std::atomic<bool> timed_out{false};

void abort_if_wanted(int mpi_class, const std::string& text) {
    if (mpi_class != MPI_ERR_OTHER || settings::values().on_failure != settings::OnFailure::kAbort)
        return;
    std::fprintf(stderr, "switchyard: %s. The job ends here (SWITCHYARD_ON_FAILURE=abort).\n", text.c_str());
    if (before_abort != nullptr)
        before_abort("MPI_Abort");
    real::Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

}  // namespace

constinit Saying before_abort = nullptr;
constinit Saying on_timeout = nullptr;

void note_timeout() {
    timed_out.store(true, std::memory_order_relaxed);
}

void say_timeout() {
    if (timed_out.load(std::memory_order_relaxed) && timed_out.exchange(false) && on_timeout != nullptr)
        on_timeout("SWITCHYARD_TIMEOUT");
}

int code(int mpi_class, const std::string& text) {
    say_timeout();
    abort_if_wanted(mpi_class, text);
    return code_with(mpi_class, text);
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    return real::Error_string(code, text, &length) == MPI_SUCCESS ? text : "unknown error";
}

int raise(const Owner& owner, int mpi_class, const std::string& text) {
    Owner asked = owner;
    if (asked.kind == Owner::Kind::kNone || (asked.kind == Owner::Kind::kComm && asked.comm == MPI_COMM_NULL))
        asked = Owner(MPI_COMM_WORLD);
    if (!has_handler(asked)) {
        std::fprintf(stderr, "switchyard: %s\n", text.c_str());
        return mpi_class;
    }
    say_timeout();
    abort_if_wanted(mpi_class, text);
    const int code = code_with(class_of(asked, mpi_class), text);
    const Handling handling = handling_of(asked);
    if (handling != Handling::kReturns)  // a fatal one shows MPI_MAX_ERROR_STRING characters at most, a program's none
        std::fprintf(stderr, "switchyard: %s\n", text.c_str());
    if (handling == Handling::kEndsJob && before_abort != nullptr)  // the launcher may leave no time for it later
        before_abort("a fatal error");
    through_handler(asked, code);
    return code;
}

int raise(const Call& call, int mpi_class, const std::string& text) {
    return raise(call.owner, mpi_class, text);
}

}  // namespace swy::error
