#include "request/handle.hpp"

#include <cstdio>

#include "comm/state.hpp"
#include "progress/engine.hpp"
#include "real.hpp"
#include "request/table.hpp"

namespace swy::request {

void show(const progress::Outcome& outcome, MPI_Status& status) {
    status.MPI_SOURCE = outcome.source;
    status.MPI_TAG = outcome.tag;
    real::Status_set_elements_x(&status, MPI_BYTE, static_cast<MPI_Count>(outcome.bytes));
    real::Status_set_cancelled(&status, outcome.cancelled ? 1 : 0);
}

void say_unasked(const progress::Operation& operation) {
    if (operation.outcome().mpi_class != MPI_SUCCESS)
        std::fprintf(stderr, "switchyard: %s (its request had been freed)\n", operation.outcome().text.c_str());
}

namespace {

// A generalized request. MPI owns one reference (Grequest_start's extra state) until it has been completed and freed.
class Generalized final : public Handle {
  public:
    explicit Generalized(std::shared_ptr<progress::Operation> operation) { operation_ = std::move(operation); }

    static int begin(const std::shared_ptr<Generalized>& handle, MPI_Request* request) {
        auto* mine = new std::shared_ptr<Generalized>(handle);
        const int code = real::Grequest_start(query, release, cancel, mine, &handle->request_);
        if (code != MPI_SUCCESS) {
            delete mine;
            return code;
        }
        enter(handle->request_, handle);
        *request = handle->request_;
        const progress::Hold hold;
        handle->operation_->tell(handle.get());
        return MPI_SUCCESS;
    }

    bool persistent() const override { return false; }
    int start(MPI_Request& request) override { return real::Start(&request); }  // MPI reports what is wrong

    int free(MPI_Request& request) override {
        {
            const progress::Hold hold;
            freed_ = true;
            if (operation_->done())
                say_unasked(*operation_);
        }
        return real::Request_free(&request);
    }

    void completed(progress::Operation& operation) override {
        if (freed_)
            say_unasked(operation);
        real::Grequest_complete(request_);  // may destroy this object
    }

  private:
    static Generalized& of(void* state) { return **static_cast<std::shared_ptr<Generalized>*>(state); }

    // MPI must not report the error, since it would call MPI_COMM_WORLD's handler: the wrappers report it (Completing).
    static int query(void* state, MPI_Status* status) {
        const progress::Operation& operation = *of(state).operation_;
        show(operation.done() ? operation.outcome() : progress::Outcome{}, *status);
        return MPI_SUCCESS;
    }

    static int release(void* state) {
        delete static_cast<std::shared_ptr<Generalized>*>(state);
        return MPI_SUCCESS;
    }

    static int cancel(void* state, int complete) {
        const std::shared_ptr<progress::Operation> operation = of(state).operation_;
        if (complete != 0)
            return MPI_SUCCESS;
        if (progress::held_here()) {
            operation->cancel();
            return MPI_SUCCESS;
        }
        const progress::Hold hold;
        if (!operation->done())
            operation->cancel();
        return MPI_SUCCESS;
    }

    MPI_Request request_ = MPI_REQUEST_NULL;
    bool freed_ = false;  // under the lock
};

}  // namespace

int hand_out(std::shared_ptr<progress::Operation> operation, MPI_Request* request) {
    if (operation->comm() != MPI_COMM_NULL)  // an operation on a file has none, and MPI_Imrecv may have none
        comm::of(operation->comm());         // so that an error can tell whether the communicator still exists
    return Generalized::begin(std::make_shared<Generalized>(std::move(operation)), request);
}

}  // namespace swy::request
