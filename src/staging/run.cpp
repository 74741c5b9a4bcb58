// Runs a call on device memory by way of host memory.
#include <algorithm>
#include <new>
#include <numeric>
#include <optional>

#include "comm/where.hpp"
#include "error/error.hpp"
#include "pack/operands.hpp"
#include "pack/pieces.hpp"
#include "progress/wait.hpp"
#include "staging/in_pieces.hpp"
#include "staging/staged.hpp"
#include "staging/staging.hpp"

namespace swy::staging {
namespace {

class FirstOnDevice final : public pack::Visitor {
  public:
    device::Result visit(const pack::Segment&, const pack::Sheet&, const pack::MemoryRange& place) override {
        return place.device ? 1 : 0;
    }
};

int raise(const Call& call, const Failure& failure) {
    return error::raise(call, failure.mpi_class, failure.text());
}

int run(const Call& call, Real real, Staging& staging, comm::Contribution& part) {
    if (const Failure failure = staging.prepare(call))
        return raise(call, failure);
    if (staging.none())
        return real(staging.operands());
    Failure failure = staging.copy_in(Staging::Back::kInThisCall);
    if (failure && !staging.go_on(part, failure))
        return raise(call, failure);
    while (!part.told())
        progress::progress();
    const int rc = real(staging.operands());
    if (!failure)
        failure = failure_elsewhere(call.id, call.owner, part);
    if (!failure)
        failure = staging.copy_out(rc == MPI_SUCCESS);
    return failure && rc == MPI_SUCCESS ? raise(call, failure) : rc;
}

}  // namespace

int run(const Call& call, Real real, comm::Contribution part) {
    try {
        if (const auto pieces = made_together(call) ? std::nullopt : pieces_of(call))
            return run_in_pieces(call, real, *pieces);
        Staging staging(call.id, call.owner);
        return run(call, real, staging, part);
    } catch (const std::bad_alloc&) {
        return error::raise(call, MPI_ERR_NO_MEM,
                            comm::where(call.id, call.owner) + ": no host memory to stage device memory with");
    }
}

bool touches_device(const Call& call, const Operand& operand) {
    if (operand.shape == Shape::kAddress)
        return device::on_device(operand.address);
    try {
        const pack::Data data = pack::data_of(call, operand);
        pack::MemoryRanges places;
        FirstOnDevice visitor;
        return pack::walk(data.reads, operand.address, places, visitor) != 0 ||
               (!data.kept && pack::walk(data.writes, operand.address, places, visitor) != 0);
    } catch (const std::bad_alloc&) {
        return device::on_device(operand.address);
    }
}

bool touches_host_alone(const Call& call, const Operand& operand) {
    return !pack::data_of(call, operand).empty() && !touches_device(call, operand);
}

std::size_t bytes_of(const Call& call, const Operand& operand) {
    const pack::Data data = pack::data_of(call, operand);
    const auto sum = [](const std::vector<pack::Segment>& segments) {
        return std::accumulate(segments.begin(), segments.end(), std::size_t{0},
                               [](std::size_t n, const pack::Segment& s) { return n + s.count * s.layout->size; });
    };
    return std::max(sum(data.reads), sum(data.writes));
}

}  // namespace swy::staging
