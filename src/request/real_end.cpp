// Open MPI 4.1 and 5.0 do not set MPI_ERROR in MPI_Request_get_status, so MPI_Test alone tells how a request has
// completed. But it calls the error handler of the request's communicator or file, which may be the program's and call
// anything: so that handler is replaced while MPI_Test is called for a request that is complete.
#include "request/real_end.hpp"

#include <atomic>
#include <optional>

#include "comm/state.hpp"
#include "error/loss.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::request {
namespace {

void get_handler(const Owner& owner, MPI_Errhandler* handler) {
    if (owner.kind == Owner::Kind::kFile)
        real::File_get_errhandler(owner.file, handler);
    else if (owner.kind == Owner::Kind::kWin)
        real::Win_get_errhandler(owner.win, handler);
    else
        real::Comm_get_errhandler(owner.comm, handler);
}

void set_handler(const Owner& owner, MPI_Errhandler handler) {
    if (owner.kind == Owner::Kind::kFile)
        real::File_set_errhandler(owner.file, handler);
    else if (owner.kind == Owner::Kind::kWin)
        real::Win_set_errhandler(owner.win, handler);
    else
        real::Comm_set_errhandler(owner.comm, handler);
}

class ErrorsReturn {
  public:
    explicit ErrorsReturn(const Owner& owner) : owner_(owner) {
        get_handler(owner_, &handler_);
        if (handler_ != MPI_ERRORS_RETURN)
            set_handler(owner_, MPI_ERRORS_RETURN);
    }
    ~ErrorsReturn() {
        if (handler_ != MPI_ERRORS_RETURN)
            set_handler(owner_, handler_);
        real::Errhandler_free(&handler_);
    }
    ErrorsReturn(const ErrorsReturn&) = delete;
    ErrorsReturn& operator=(const ErrorsReturn&) = delete;

  private:
    const Owner owner_;
    MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
};

// The program may have freed the communicator meanwhile.
bool lives(const Owner& owner) {
    return owner.kind != Owner::Kind::kComm || owner.comm == MPI_COMM_WORLD || comm::lives(owner.comm);
}

}  // namespace

bool has_ended(MPI_Request& request, const Owner& owner, MPI_Status& status, int& code) {
    int flag = 0;
    status.MPI_ERROR = MPI_SUCCESS;
    const bool living = lives(owner);
    // Only MPI_Test finds that the peer has failed.
    if (!error::survives || !living) {
        code = real::Request_get_status(request, &flag, &status);
        if (code == MPI_SUCCESS && flag == 0)
            return false;
    }
    if (!living) {
        real::Request_free(&request);
        return true;
    }
    std::optional<ErrorsReturn> here, world;
    if (owner.kind != Owner::Kind::kNone)
        here.emplace(owner);
    if (progress::has_self.load(std::memory_order_relaxed) &&
        !(owner.kind == Owner::Kind::kComm && owner.comm == MPI_COMM_WORLD))
        world.emplace(Owner(MPI_COMM_WORLD));
    code = real::Test(&request, &flag, &status);
    if (code == MPI_SUCCESS && flag == 0)
        return false;
    if (flag == 0) {
        // It receives from any rank, and some have failed (MPIX_ERR_PROC_FAILED_PENDING): nothing has been matched.
        real::Cancel(&request);
        real::Request_free(&request);
    }
    return true;
}

}  // namespace swy::request
