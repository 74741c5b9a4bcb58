// Switchyard's persistent requests. The handle is that of a persistent receive of no bytes from this process to itself;
// when the operation is done, the message is sent.
#include <fmt/format.h>

#include <mutex>
#include <new>
#include <vector>

#include "call/private_comm.hpp"
#include "comm/state.hpp"
#include "comm/where.hpp"
#include "error/error.hpp"
#include "progress/engine.hpp"
#include "real.hpp"
#include "request/table.hpp"

namespace swy::request {
namespace {

// The communicator on which those messages travel, and the tags that no such request has.
class Channel {
  public:
    MPI_Comm comm() {
        const std::scoped_lock lock(mutex_);
        if (comm_ == MPI_COMM_NULL)
            call::make_private_comm(MPI_COMM_SELF, &comm_);
        return comm_;
    }

    int take_tag() {
        const std::scoped_lock lock(mutex_);
        if (tags_.empty())
            return next_tag_++;
        const int tag = tags_.back();
        tags_.pop_back();
        return tag;
    }

    void give_back(int tag) {
        const std::scoped_lock lock(mutex_);
        tags_.push_back(tag);
    }

    void release() {
        const std::scoped_lock lock(mutex_);
        if (comm_ != MPI_COMM_NULL)
            real::Comm_free(&comm_);
    }

  private:
    std::mutex mutex_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::vector<int> tags_;
    int next_tag_ = 0;
};

// Not destroyed at exit.
Channel& channel() {
    static auto* the = new Channel;
    return *the;
}

class Persistent final : public Handle, public std::enable_shared_from_this<Persistent> {
  public:
    Persistent(CallId call, MPI_Comm comm, Starter starter)
        : call_(call),
          comm_(comm),
          starter_(std::move(starter)),
          channel_(channel().comm()),
          tag_(channel().take_tag()) {}
    ~Persistent() override { channel().give_back(tag_); }

    static int begin(const std::shared_ptr<Persistent>& handle, MPI_Request* request) {
        MPI_Request made = MPI_REQUEST_NULL;
        const int code = real::Recv_init(&handle->nothing_, 0, MPI_BYTE, 0, handle->tag_, handle->channel_, &made);
        if (code != MPI_SUCCESS)
            return error::raise(Owner(handle->comm_), MPI_ERR_INTERN,
                                comm::where(handle->call_, handle->comm_) + ": MPI has no persistent request");
        enter(made, handle);
        *request = made;
        return MPI_SUCCESS;
    }

    bool persistent() const override { return true; }

    int start(MPI_Request& request) override {
        if (operation_ != nullptr)
            return error::raise(
                Owner(comm_), MPI_ERR_REQUEST,
                fmt::format("{}: a request of {} is active already", comm::where(CallId::kStart, comm_), name(call_)));
        try {
            int code = MPI_SUCCESS;
            std::shared_ptr<progress::Operation> operation = starter_(code);
            if (operation == nullptr)
                return comm::with_place(CallId::kStart, Owner(comm_), code);
            if (code = real::Start(&request); code != MPI_SUCCESS)
                return error::raise(Owner(comm_), MPI_ERR_INTERN,
                                    fmt::format("{}: MPI does not start a request of {}",
                                                comm::where(CallId::kStart, comm_), name(call_)));
            operation_ = std::move(operation);
        } catch (const std::bad_alloc&) {
            return error::raise(
                Owner(comm_), MPI_ERR_NO_MEM,
                fmt::format("{}: no host memory left for {}", comm::where(CallId::kStart, comm_), name(call_)));
        }
        const progress::Hold hold;
        operation_->tell(this);
        return MPI_SUCCESS;
    }

    // The receive of an active request is freed now too, and completes when the message comes (MPI 4.0 section 3.7.3).
    int free(MPI_Request& request) override {
        if (operation_ != nullptr) {
            const progress::Hold hold;
            if (operation_->done())
                say_unasked(*operation_);
            else
                kept_ = shared_from_this();
        }
        return real::Request_free(&request);
    }

    void completed(progress::Operation& operation) override {
        const std::shared_ptr<Persistent> kept = std::move(kept_);  // set when the request was freed: it ends here
        if (kept != nullptr)
            say_unasked(operation);
        MPI_Request sent = MPI_REQUEST_NULL;
        if (real::Isend(&nothing_, 0, MPI_BYTE, 0, tag_, channel_, &sent) == MPI_SUCCESS)
            real::Request_free(&sent);
    }

  private:
    const CallId call_;
    const MPI_Comm comm_;
    const Starter starter_;
    const MPI_Comm channel_;
    const int tag_;
    char nothing_ = 0;
    std::shared_ptr<Persistent> kept_;  // under the lock
};

}  // namespace

int hand_out_persistent(CallId call, MPI_Comm comm, Starter start, MPI_Request* request) {
    comm::of(comm);  // so that an error can tell whether the communicator still exists
    return Persistent::begin(std::make_shared<Persistent>(call, comm, std::move(start)), request);
}

void release_handles() {
    channel().release();
}

}  // namespace swy::request
