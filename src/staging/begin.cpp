// Calls on device memory that leave a request. The real call on host memory is made in its place among the calls of the
// communicator or file, as ranks without device memory make it; the program's request is complete when the result has
// been copied to the device. The host memory, and the real call's types and displacements, stay until then.
#include <fmt/format.h>

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "call/depth.hpp"
#include "comm/where.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "report/op_record.hpp"
#include "request/handle.hpp"
#include "request/real_end.hpp"
#include "settings/settings.hpp"
#include "staging/average.hpp"
#include "staging/staged.hpp"
#include "staging/staging.hpp"

namespace swy::staging {

// The real request, and what it works with. A persistent call's stays from the request's creation to its freeing.
struct PersistentStaging {
    PersistentStaging(const Call& call, Reason why, std::size_t payload, Use use = Use::kAlways)
        : id(call.id),
          owner(call.owner),
          handler(call.owner),
          reason(why),
          bytes(payload),
          staging(std::make_unique<Staging>(call.id, call.owner, use)) {}

    ~PersistentStaging() {
        if (active)
            progress::keep_until(std::exchange(request, MPI_REQUEST_NULL), std::move(staging));
        int down = 0;
        real::Finalized(&down);
        if (!down)
            drop();
    }
    PersistentStaging(const PersistentStaging&) = delete;
    PersistentStaging& operator=(const PersistentStaging&) = delete;

    void drop() {
        if (request != MPI_REQUEST_NULL)
            real::Request_free(&request);
    }

    const CallId id;
    const Owner owner;
    Owner handler;  // whose error handler MPI calls for the real request
    const Reason reason;
    const std::size_t bytes;
    std::unique_ptr<Staging> staging;
    std::optional<Average> average;
    MPI_Request request = MPI_REQUEST_NULL;
    bool active = false;
    comm::OperationId what = 0;  // the ids of a persistent call's starts are made of it
    std::uint64_t starts = 0;
};

namespace {

int raise(const PersistentStaging& persistent, const Failure& failure) {
    return error::raise(persistent.owner, failure.mpi_class, failure.text());
}

Failure failed_before(const PersistentStaging& persistent) {
    return {MPI_ERR_REQUEST,
            fmt::format("a request of {} has failed before and cannot be used again", name(persistent.id)),
            comm::where(CallId::kStart, persistent.owner)};
}

// A staged call, from the real call or start to the end of the copy back.
class StagedCall final : public Deferred {
  public:
    StagedCall(std::shared_ptr<PersistentStaging> persistent, comm::Contribution part, Reason reason,
               Make make = nullptr)
        : Deferred(persistent->id, persistent->owner),
          persistent_(std::move(persistent)),
          part_(std::move(part)),
          make_(std::move(make)) {
        record_.route(reason == Reason::kNone ? Carrier::kHost : Carrier::kStaged, reason, persistent_->bytes);
    }

    bool step() override {
        if (make_ != nullptr)
            return made();
        return copying_ ? copied() : ended() && (done() || copied());
    }

    bool called() const override { return make_ == nullptr; }

    // The real call has been made, and no rank knows whether the others have made theirs. They have twice as long as
    // SWITCHYARD_TIMEOUT says: one that waits for a copy makes its call, and tells why, when that has passed.
    void begin_waiting() {
        if (collective(call()))
            limit_.emplace(2 * settings::values().timeout);
    }

    // Does what comes before the real call, with MPI's progress. Returns false with an error that has been raised:
    // there is to be no real call.
    bool copy_in(int& code) {
        const Failure failure = persistent_->staging->copy_in(Staging::Back::kLater);
        if (failure && !spoil(failure)) {
            code = raise(*persistent_, failure);
            return false;
        }
        while (!part_.told())
            progress::progress();
        return true;
    }

    // For a deferred call: does what comes before the real call.
    void prepare(const Call& call) {
        note(persistent_->staging->prepare(call));
        if (outcome_.mpi_class != MPI_SUCCESS)
            return end_uncalled();
        if (datatype::averages(call.op))
            persistent_->average.emplace(call, persistent_->staging->operands());
        spoil(persistent_->staging->begin_copy_in());
    }

    // The same for a start.
    void prepare_start() {
        if (persistent_->request != MPI_REQUEST_NULL) {
            spoil(persistent_->staging->begin_copy_in());
            return;
        }
        note(failed_before(*persistent_));
        end_uncalled();
    }

  private:
    bool made() {
        bool done = false;
        spoil(persistent_->staging->query(done, pack::Direction::kToHost));
        if (!done || !part_.told())
            return false;
        if (const int rc = make_(persistent_->staging->operands(), &persistent_->request); rc != MPI_SUCCESS) {
            explain(rc);
            end_uncalled();
            return true;
        }
        make_ = nullptr;
        persistent_->active = true;
        return true;
    }

    // Notes that the data is not what the program has given. Returns whether the real call is made all the same.
    bool spoil(const Failure& failure) {
        if (!failure || spoilt_)
            return spoilt_;
        note(failure);
        spoilt_ = persistent_->staging->go_on(part_, failure);
        return spoilt_;
    }

    void end_uncalled() {
        make_ = nullptr;
        if (persistent(call()))
            persistent_->drop();  // the other ranks have started it
        else
            persistent_->staging.reset();
        finish(std::move(outcome_));
    }

    // Is the real request complete?
    bool ended() {
        if (!progress::may_poll())
            return false;
        int error = MPI_SUCCESS;
        MPI_Status status;
        if (!request::has_ended(persistent_->request, persistent_->handler, status, error))
            return limit_.has_value() && limit_->passed() && give_up();
        deactivate(error == MPI_SUCCESS);
        copying_ = true;
        if (const Failure failure = failure_elsewhere(call(), owner(), part_)) {
            note(failure);
            spoilt_ = true;
        }
        if (spoilt_)
            return true;
        if (error == MPI_SUCCESS)
            read(status);
        else
            explain(error);
        if (error == MPI_SUCCESS && persistent_->average.has_value())
            persistent_->average->divide();
        begin_copy_out(error == MPI_SUCCESS);
        return true;
    }

    // Leaves the real request, and the memory that it works on, to MPI: the other ranks may still come, and have this
    // one's part.
    bool give_up() {
        if (comm::lives(comm()))
            comm::of(comm())->given_up = true;
        std::string why =
            fmt::format("{} before MPI ended the call: see that each rank makes it, or allow more time", limit_->why());
        note({MPI_ERR_OTHER, std::move(why), comm::where(call(), owner())});
        persistent_->active = false;
        progress::keep_until(std::exchange(persistent_->request, MPI_REQUEST_NULL), std::move(persistent_->staging));
        finish(std::move(outcome_));
        return true;
    }

    // A persistent request is now inactive, unless it has failed.
    void deactivate(bool success) {
        persistent_->active = false;
        if (!success)
            persistent_->drop();
    }

    void read(const MPI_Status& status) {
        MPI_Count bytes = 0;
        outcome_.source = status.MPI_SOURCE;
        outcome_.tag = status.MPI_TAG;
        if (real::Get_elements_x(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0)
            outcome_.bytes = static_cast<std::size_t>(bytes);
    }

    void explain(int error) {
        outcome_.mpi_class = MPI_ERR_OTHER;
        real::Error_class(error, &outcome_.mpi_class);
        outcome_.text = fmt::format("{}: {}", comm::where(call(), owner()), error::text_of(error));
    }

    void begin_copy_out(bool all) {
        try {
            note(persistent_->staging->begin_copy_out(all));
        } catch (const std::bad_alloc&) {
            note({MPI_ERR_NO_MEM, "no host memory to stage device memory with", comm::where(call(), owner())});
        }
    }

    bool copied() {
        bool done = false;
        note(persistent_->staging->query(done));
        if (!done)
            return false;
        if (outcome_.mpi_class == MPI_SUCCESS)
            record_.close(persistent_->bytes);
        if (!persistent(call()))
            persistent_->staging.reset();  // the program may keep the request for long
        finish(std::move(outcome_));
        return true;
    }

    void note(const Failure& failure) {
        if (!failure || outcome_.mpi_class != MPI_SUCCESS)
            return;
        outcome_.mpi_class = failure.mpi_class;
        outcome_.text = failure.text();
    }

    const std::shared_ptr<PersistentStaging> persistent_;
    comm::Contribution part_;
    Make make_;
    std::optional<progress::Deadline> limit_;  // none where the ranks have agreed on the call
    progress::Outcome outcome_;
    report::OpRecord record_{call(), owner()};
    bool copying_ = false;
    bool spoilt_ = false;  // there is no result, on any rank
};

void add_started(const std::shared_ptr<PersistentStaging>& persistent, const std::shared_ptr<StagedCall>& operation) {
    persistent->active = true;
    operation->begin_waiting();
    const progress::Hold hold;
    progress::add(operation);
}

std::shared_ptr<progress::Operation> start(const std::shared_ptr<PersistentStaging>& persistent, int& code) {
    const call::Inside guard;
    if (persistent->request == MPI_REQUEST_NULL) {
        code = raise(*persistent, failed_before(*persistent));
        return nullptr;
    }
    const comm::OperationId what = persistent->what != 0 ? comm::start_of(persistent->what, ++persistent->starts) : 0;
    auto operation =
        std::make_shared<StagedCall>(persistent, comm::Contribution(persistent->owner.comm, what), persistent->reason);
    if (!operation->copy_in(code))
        return nullptr;
    if (code = real::Start(&persistent->request); code != MPI_SUCCESS)
        return nullptr;
    add_started(persistent, operation);
    return operation;
}

}  // namespace

std::shared_ptr<Deferred> defer(const Call& call, Make make, comm::Contribution part, Reason reason,
                                std::size_t bytes) {
    auto persistent = std::make_shared<PersistentStaging>(call, reason, bytes);
    persistent->handler = Owner();  // the real call is made on a private communicator, whose errors return
    auto operation = std::make_shared<StagedCall>(std::move(persistent), std::move(part), reason, std::move(make));
    operation->prepare(call);
    return operation;
}

std::shared_ptr<PersistentStaging> stand_by(const Call& call, Real real, std::size_t bytes, int& code) {
    auto persistent = std::make_shared<PersistentStaging>(call, Reason::kNone, bytes, Use::kSeldom);
    if (const Failure failure = persistent->staging->prepare(call))
        code = raise(*persistent, failure);
    else
        code = real(persistent->staging->operands());
    if (code != MPI_SUCCESS)
        return nullptr;
    if (datatype::averages(call.op))
        persistent->average.emplace(call, persistent->staging->operands());
    persistent->request = std::exchange(*call.request, MPI_REQUEST_NULL);
    return persistent;
}

std::shared_ptr<Deferred> start(const std::shared_ptr<PersistentStaging>& persistent, comm::Contribution part,
                                Reason reason) {
    const auto make = [](const Operand*, MPI_Request* request) { return real::Start(request); };
    auto operation = std::make_shared<StagedCall>(persistent, std::move(part), reason, make);
    operation->prepare_start();
    return operation;
}

int begin(const Call& call, Real real, comm::OperationId what, Reason reason, std::size_t bytes,
          std::shared_ptr<progress::Operation>* begun) {
    auto persistent = std::make_shared<PersistentStaging>(call, reason, bytes);
    if (const Failure failure = persistent->staging->prepare(call))
        return raise(*persistent, failure);
    if (datatype::averages(call.op))
        persistent->average.emplace(call, persistent->staging->operands());
    const bool starts_later = swy::persistent(call.id);
    std::shared_ptr<StagedCall> operation;
    if (starts_later) {
        persistent->what = what;
    } else {
        int code = MPI_SUCCESS;
        operation = std::make_shared<StagedCall>(persistent, comm::Contribution(call.owner.comm, what), reason);
        if (!operation->copy_in(code))
            return code;
    }
    if (const int rc = real(persistent->staging->operands()); rc != MPI_SUCCESS)
        return rc;
    persistent->request = std::exchange(*call.request, MPI_REQUEST_NULL);
    if (starts_later)
        return request::hand_out_persistent(
            call.id, call.owner.comm, [persistent](int& code) { return start(persistent, code); }, call.request);
    add_started(persistent, operation);
    if (begun != nullptr)
        *begun = operation;
    return request::hand_out(std::move(operation), call.request);
}

}  // namespace swy::staging
