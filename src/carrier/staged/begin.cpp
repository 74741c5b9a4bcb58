// Calls on device memory that leave a request: the real call on host memory is made in its place among the calls of the
// communicator or file, as ranks without device memory make it, and what the request stands for is done when the result
// has been copied to the device. What the host memory holds, the real call's types and displacements among it, stays
// until then.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "carrier/staged/average.hpp"
#include "carrier/staged/staged.hpp"
#include "carrier/staged/staging.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "p2p/ledger.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "route/depth.hpp"

namespace swy::carrier::staged {

// What the real request works with, and the request. Of a persistent call it stays from its making to its freeing.
struct Standing {
    Standing(const Call& call, Reason why, std::size_t payload, Staging::Use use = Staging::Use::kAlways)
        : id(call.id),
          owner(call.owner),
          reason(why),
          bytes(payload),
          staging(std::make_unique<Staging>(call.id, use)) {}

    ~Standing() {
        if (active)
            staging.release();  // NOLINT(bugprone-unused-return-value): MPI still works on it
        int down = 0;
        real::Finalized(&down);
        if (!down)
            drop();
    }
    Standing(const Standing&) = delete;
    Standing& operator=(const Standing&) = delete;

    void drop() {
        if (request != MPI_REQUEST_NULL)
            real::Request_free(&request);
    }

    const CallId id;
    const Owner owner;
    const Reason reason;
    const std::size_t bytes;
    std::unique_ptr<Staging> staging;
    std::optional<Average> average;
    MPI_Request request = MPI_REQUEST_NULL;
    bool active = false;
};

namespace {

int raise(const Standing& standing, const Failure& failure) {
    return error::raise(standing.owner, failure.mpi_class, failure.text);
}

Failure failed_before(const Standing& standing) {
    return {MPI_ERR_REQUEST,
            fmt::format("MPI_Start: a request of {} has failed before and cannot be used again", name(standing.id))};
}

// From the real call or start to the end of the copy back.
class Staged final : public Deferred {
  public:
    explicit Staged(std::shared_ptr<Standing> standing, Make make = nullptr)
        : Staged(standing, standing->reason, std::move(make)) {}
    Staged(std::shared_ptr<Standing> standing, Reason reason, Make make)
        : Deferred(standing->id, standing->owner), standing_(std::move(standing)), make_(std::move(make)) {
        ledger_.route(reason == Reason::kNone ? Carrier::kHost : Carrier::kStaged, reason);
    }

    bool step() override {
        if (make_ != nullptr)
            return made();
        return copying_ ? copied() : ended() && copied();
    }

    bool called() const override { return make_ == nullptr; }

    // Of a deferred one: what comes before the real call.
    void prepare(const Call& call) {
        note(standing_->staging->prepare(call));
        if (outcome_.mpi_class != MPI_SUCCESS)
            return end_uncalled();
        if (datatype::averages(call.op))
            standing_->average.emplace(call, standing_->staging->operands());
        note(standing_->staging->begin_copy_in());
    }

    // The same of a start.
    void prepare_start() {
        if (standing_->request != MPI_REQUEST_NULL)
            return note(standing_->staging->begin_copy_in());
        note(failed_before(*standing_));
        end_uncalled();
    }

  private:
    bool made() {
        bool done = false;
        note(standing_->staging->query(done, Direction::kToHost));
        if (!done)
            return false;
        if (outcome_.mpi_class == MPI_SUCCESS)
            if (const int rc = make_(standing_->staging->operands(), &standing_->request); rc != MPI_SUCCESS)
                describe(rc);
        if (outcome_.mpi_class != MPI_SUCCESS) {
            end_uncalled();
            return true;
        }
        make_ = nullptr;
        standing_->active = true;
        return true;
    }

    void end_uncalled() {
        make_ = nullptr;
        if (persistent(call()))
            standing_->drop();  // the others have started it
        else
            standing_->staging.reset();
        finish(std::move(outcome_));
    }

    // Is MPI done?
    bool ended() {
        if (!request::may_ask())
            return false;
        int left = 0;
        MPI_Status status;
        status.MPI_ERROR = MPI_SUCCESS;
        const int rc = real::Request_get_status(standing_->request, &left, &status);
        if (rc == MPI_SUCCESS && !left)
            return false;
        const int error = rc != MPI_SUCCESS ? rc : status.MPI_ERROR;
        if (error == MPI_SUCCESS)
            read(status);
        else
            describe(error);
        settle(error == MPI_SUCCESS);
        if (error == MPI_SUCCESS && standing_->average.has_value())
            standing_->average->divide();
        begin_copy_out(error == MPI_SUCCESS);
        return true;
    }

    // A persistent request is inactive after this, when it has not failed.
    void settle(bool success) {
        standing_->active = false;
        if (success && persistent(call()))
            real::Wait(&standing_->request, MPI_STATUS_IGNORE);  // which returns at once
        else
            standing_->drop();
    }

    void read(const MPI_Status& status) {
        MPI_Count bytes = 0;
        outcome_.source = status.MPI_SOURCE;
        outcome_.tag = status.MPI_TAG;
        if (real::Get_elements_x(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0)
            outcome_.bytes = static_cast<std::size_t>(bytes);
    }

    void describe(int error) {
        std::array<char, MPI_MAX_ERROR_STRING> text{};
        int length = 0;
        outcome_.mpi_class = MPI_ERR_OTHER;
        real::Error_class(error, &outcome_.mpi_class);
        real::Error_string(error, text.data(), &length);
        outcome_.text = fmt::format("{}: {}", name(call()), text.data());
    }

    void begin_copy_out(bool all) {
        copying_ = true;
        try {
            note(standing_->staging->begin_copy_out(all));
        } catch (const std::bad_alloc&) {
            note({MPI_ERR_NO_MEM, fmt::format("{}: no host memory to stage device memory with", name(call()))});
        }
    }

    bool copied() {
        bool done = false;
        note(standing_->staging->query(done));
        if (!done)
            return false;
        if (outcome_.mpi_class == MPI_SUCCESS)
            ledger_.close(call(), standing_->bytes);
        if (!persistent(call()))
            standing_->staging.reset();  // the program may keep the request for long
        finish(std::move(outcome_));
        return true;
    }

    void note(const Failure& failure) {
        if (!failure || outcome_.mpi_class != MPI_SUCCESS)
            return;
        outcome_.mpi_class = failure.mpi_class;
        outcome_.text = failure.text;
    }

    const std::shared_ptr<Standing> standing_;
    Make make_;
    request::Outcome outcome_;
    p2p::Ledger ledger_;
    bool copying_ = false;
};

void begun(const std::shared_ptr<Standing>& standing, const std::shared_ptr<Staged>& operation) {
    standing->active = true;
    const request::Hold hold;
    request::add(operation);
}

std::shared_ptr<request::Operation> start(const std::shared_ptr<Standing>& standing, int& code) {
    const route::Inside guard;
    if (standing->request == MPI_REQUEST_NULL) {
        code = raise(*standing, failed_before(*standing));
        return nullptr;
    }
    auto operation = std::make_shared<Staged>(standing);
    if (const Failure failure = standing->staging->copy_in(Staging::Back::kLater)) {
        code = raise(*standing, failure);
        return nullptr;
    }
    if (code = real::Start(&standing->request); code != MPI_SUCCESS)
        return nullptr;
    begun(standing, operation);
    return operation;
}

}  // namespace

std::shared_ptr<Deferred> defer(const Call& call, Make make, Reason reason, std::size_t bytes) {
    auto operation = std::make_shared<Staged>(std::make_shared<Standing>(call, reason, bytes), std::move(make));
    operation->prepare(call);
    return operation;
}

std::shared_ptr<Standing> stand_by(const Call& call, Real real, std::size_t bytes, int& code) {
    auto standing = std::make_shared<Standing>(call, Reason::kNone, bytes, Staging::Use::kSeldom);
    if (const Failure failure = standing->staging->prepare(call))
        code = raise(*standing, failure);
    else
        code = real(standing->staging->operands());
    if (code != MPI_SUCCESS)
        return nullptr;
    if (datatype::averages(call.op))
        standing->average.emplace(call, standing->staging->operands());
    standing->request = std::exchange(*call.request, MPI_REQUEST_NULL);
    return standing;
}

std::shared_ptr<Deferred> start(const std::shared_ptr<Standing>& standing, Reason reason) {
    const auto make = [](const Operand*, MPI_Request* request) { return real::Start(request); };
    auto operation = std::make_shared<Staged>(standing, reason, make);
    operation->prepare_start();
    return operation;
}

int begin(const Call& call, Real real, Reason reason, std::size_t bytes) {
    auto standing = std::make_shared<Standing>(call, reason, bytes);
    if (const Failure failure = standing->staging->prepare(call))
        return raise(*standing, failure);
    if (datatype::averages(call.op))
        standing->average.emplace(call, standing->staging->operands());
    const bool starts_later = persistent(call.id);
    std::shared_ptr<Staged> operation;
    if (!starts_later) {
        operation = std::make_shared<Staged>(standing);
        if (const Failure failure = standing->staging->copy_in(Staging::Back::kLater))
            return raise(*standing, failure);
    }
    if (const int rc = real(standing->staging->operands()); rc != MPI_SUCCESS)
        return rc;
    standing->request = std::exchange(*call.request, MPI_REQUEST_NULL);
    if (starts_later)
        return request::hand_out_persistent(
            call.id, call.owner.comm, [standing](int& code) { return start(standing, code); }, call.request);
    begun(standing, operation);
    return request::hand_out(std::move(operation), call.request);
}

}  // namespace swy::carrier::staged
