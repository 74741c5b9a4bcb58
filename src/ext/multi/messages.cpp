#include "ext/multi/messages.hpp"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "comm/where.hpp"
#include "datatype/layout.hpp"
#include "dispatch/dispatch.hpp"
#include "error/error.hpp"
#include "fastpath/message.hpp"
#include "real.hpp"

namespace swy::multi {
namespace {

// All buffers as one element of a datatype made from their addresses, or a single buffer as it is; and each buffer by
// itself.
class Together {
  public:
    explicit Together(const Message& message) {
        if (message.number == 1) {
            operand_ = {.address = message.buffers[0], .count = message.count, .type = message.type};
            return;
        }
        operand_ = {.address = MPI_BOTTOM, .count = 1, .type = MPI_BYTE};
        for (int i = 0; i < message.number; ++i)
            each_.push_back({.address = message.buffers[i], .count = message.count, .type = message.type});
        if (message.number == 0) {
            operand_.count = 0;
            return;
        }
        const auto number = static_cast<std::size_t>(message.number);
        std::vector<MPI_Aint> addresses(number);
        for (std::size_t i = 0; i < number; ++i)
            real::Get_address(message.buffers[i], &addresses[i]);
        const std::vector<int> counts(number, message.count);
        const std::vector<MPI_Datatype> types(number, message.type);
        code_ = real::Type_create_struct(message.number, counts.data(), addresses.data(), types.data(), &type_);
        if (code_ == MPI_SUCCESS)
            code_ = real::Type_commit(&type_);
        operand_.type = type_;
    }
    ~Together() {
        if (type_ != MPI_DATATYPE_NULL)
            real::Type_free(&type_);  // MPI keeps it for operations under way
    }
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

    int code() const { return code_; }
    Operand operand(Access access) const {
        Operand with = operand_;
        with.access = access;
        return with;
    }

    std::span<const Operand> each() const { return each_; }

  private:
    Operand operand_;
    std::vector<Operand> each_;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    int code_ = MPI_SUCCESS;
};

int check(const Message& message) {
    const auto raise = [&](int mpi_class, const std::string& what) {
        return error::raise(Owner(message.comm), mpi_class, comm::where(message.id, message.comm) + ": " + what);
    };
    if (message.comm == MPI_COMM_NULL)
        return raise(MPI_ERR_COMM, "the communicator is MPI_COMM_NULL");
    if (message.number < 0)
        return raise(MPI_ERR_COUNT, fmt::format("nbufs is {}", message.number));
    if (message.count < 0)
        return raise(MPI_ERR_COUNT, fmt::format("count is {}", message.count));
    if (message.type == MPI_DATATYPE_NULL)
        return raise(MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
    if (message.number == 0 || message.count == 0)
        return MPI_SUCCESS;
    if (message.buffers == nullptr)
        return raise(MPI_ERR_BUFFER, "the list of buffers is NULL, and nbufs is not 0");
    for (int i = 0; i < message.number; ++i)
        if (message.buffers[i] == nullptr && datatype::layout_of(message.type)->predefined)
            return raise(MPI_ERR_BUFFER, fmt::format("buffer {} of {} is NULL", i, message.number));
    return MPI_SUCCESS;
}

}  // namespace

int send(const Message& message) {
    if (const int rc = check(message); rc != MPI_SUCCESS)
        return rc;
    const Together together(message);
    if (together.code() != MPI_SUCCESS)
        return together.code();
    const Operand operands[] = {together.operand(Access::kIn)};
    const Matching matching{
        .dest = message.peer, .send_tag = message.tag, .request = message.request, .buffers = together.each()};
    const Call call{.id = message.id,
                    .owner = Owner(message.comm),
                    .operands = operands,
                    .root = message.peer,
                    .matching = &matching,
                    .request = message.request};
    return dispatch::dispatch(call, [&](const Operand* use) {
        const auto count = static_cast<int>(use[0].count);
        return message.request == nullptr
                   ? real::Send(use[0].address, count, use[0].type, message.peer, message.tag, message.comm)
                   : real::Isend(use[0].address, count, use[0].type, message.peer, message.tag, message.comm,
                                 message.request);
    });
}

int receive(const Message& message) {
    if (const int rc = check(message); rc != MPI_SUCCESS)
        return rc;
    const Together together(message);
    if (together.code() != MPI_SUCCESS)
        return together.code();
    MPI_Status own;
    MPI_Status* const seen = message.request == nullptr ? fastpath::to_see(message.status, own) : MPI_STATUS_IGNORE;
    const Operand operands[] = {together.operand(Access::kOut)};
    const Matching matching{.source = message.peer,
                            .receive_tag = message.tag,
                            .status = seen,
                            .request = message.request,
                            .buffers = together.each()};
    const Call call{.id = message.id,
                    .owner = Owner(message.comm),
                    .operands = operands,
                    .root = message.peer,
                    .matching = &matching,
                    .request = message.request};
    return dispatch::dispatch(call, [&](const Operand* use) {
        const auto count = static_cast<int>(use[0].count);
        return message.request == nullptr
                   ? real::Recv(use[0].address, count, use[0].type, message.peer, message.tag, message.comm, seen)
                   : real::Irecv(use[0].address, count, use[0].type, message.peer, message.tag, message.comm,
                                 message.request);
    });
}

}  // namespace swy::multi
