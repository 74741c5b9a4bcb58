// A call on device memory by way of host memory. Before the real call this rank alone has failed when it fails, and
// nothing has been sent: the other ranks of a collective then wait for it as for any rank whose call failed, which MPI
// leaves to the program's error handler.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <numeric>

#include "carrier/staged/operands.hpp"
#include "carrier/staged/pieces.hpp"
#include "carrier/staged/staged.hpp"
#include "carrier/staged/staging.hpp"
#include "error/error.hpp"

namespace swy::carrier::staged {
namespace {

class FirstOnDevice final : public Visitor {
  public:
    device::Result visit(const Segment&, const Sheet&, const Place& place) override { return place.device ? 1 : 0; }
};

int raise(const Call& call, const Failure& failure) {
    return error::raise(call, failure.mpi_class, failure.text);
}

int run(const Call& call, Real real, Staging& staging) {
    if (const Failure failure = staging.prepare(call))
        return raise(call, failure);
    if (staging.none())
        return real(staging.operands());
    if (const Failure failure = staging.copy_in(Staging::Back::kInThisCall))
        return raise(call, failure);
    const int rc = real(staging.operands());
    const Failure failure = staging.copy_out(rc == MPI_SUCCESS);
    return failure && rc == MPI_SUCCESS ? raise(call, failure) : rc;
}

}  // namespace

int run(const Call& call, Real real, std::size_t* bytes) {
    if (bytes != nullptr)
        *bytes = 0;
    try {
        Staging staging(call.id);
        const int rc = run(call, real, staging);
        if (bytes != nullptr)
            *bytes = staging.bytes();
        return rc;
    } catch (const std::bad_alloc&) {
        return error::raise(call, MPI_ERR_NO_MEM,
                            fmt::format("{}: no host memory to stage device memory with", name(call.id)));
    }
}

bool touches_device(const Call& call, const Operand& operand) {
    if (operand.shape == Shape::kAddress)
        return device::on_device(operand.address);
    try {
        const Data data = data_of(call, operand);
        Places places;
        FirstOnDevice visitor;
        return walk(data.reads, operand.address, places, visitor) != 0 ||
               (!data.kept && walk(data.writes, operand.address, places, visitor) != 0);
    } catch (const std::bad_alloc&) {
        return device::on_device(operand.address);
    }
}

bool touches_host_alone(const Call& call, const Operand& operand) {
    return !data_of(call, operand).empty() && !touches_device(call, operand);
}

std::size_t bytes_of(const Call& call, const Operand& operand) {
    const Data data = data_of(call, operand);
    const auto sum = [](const std::vector<Segment>& segments) {
        return std::accumulate(segments.begin(), segments.end(), std::size_t{0},
                               [](std::size_t n, const Segment& s) { return n + s.count * s.layout->size; });
    };
    return std::max(sum(data.reads), sum(data.writes));
}

}  // namespace swy::carrier::staged
