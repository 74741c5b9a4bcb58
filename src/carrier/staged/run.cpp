// A call on device memory by way of host memory. Before the real call this rank alone has failed when it fails, and
// nothing has been sent: the other ranks of a collective then wait for it as for any rank whose call failed, which MPI
// leaves to the program's error handler.
#include <fmt/format.h>

#include <new>
#include <utility>
#include <vector>

#include "carrier/staged/copies.hpp"
#include "carrier/staged/operands.hpp"
#include "carrier/staged/pieces.hpp"
#include "carrier/staged/shadow.hpp"
#include "carrier/staged/staged.hpp"
#include "error/error.hpp"

namespace swy::carrier::staged {
namespace {

// What MPI gets in place of a device address that it has no business with (no elements, not significant on this rank).
constexpr std::size_t kMostOperands = 8;
alignas(64) std::byte nowhere[kMostOperands][64];

class FirstOnDevice final : public Visitor {
  public:
    device::Result visit(const Segment&, const Sheet&, const Place& place) override { return place.device ? 1 : 0; }
};

class Staging {
  public:
    explicit Staging(const Call& call) : call_(call), operands_(call.operands.begin(), call.operands.end()) {}

    ~Staging() {
        copies_.finish();
        if (copies_.abandoned())  // the device still works on this memory
            new std::vector<Shadow>(std::move(shadows_));
    }
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    int run(Real real, std::size_t* bytes) {
        if (const int rc = find_shadows(); rc != MPI_SUCCESS)
            return rc;
        if (shadows_.empty())
            return real(operands_.data());
        if (const int rc = copy(Direction::kToHost, true); rc != MPI_SUCCESS)
            return rc;
        const int rc = real(operands_.data());
        const int copied = copy(Direction::kToDevice, rc == MPI_SUCCESS);
        if (bytes != nullptr)
            *bytes = copies_.bytes();
        return rc != MPI_SUCCESS ? rc : copied;
    }

  private:
    // Substitutes what is on a device.
    int find_shadows() {
        for (std::size_t i = 0; i < operands_.size(); ++i) {
            const Operand& operand = call_.operands[i];
            if (operand.address == MPI_IN_PLACE)
                continue;
            Data data = data_of(call_, operand);
            if (data.empty()) {
                if (!device::on_device(operand.address))
                    continue;
                if (operand.shape == Shape::kAddress)
                    return fail(MPI_ERR_BUFFER,
                                "a buffer whose length the call does not say is device memory, and cannot be copied to "
                                "the host and back");
                operands_[i].address = nowhere[i % kMostOperands];
                continue;
            }
            const Survey seen = survey(operand, data, places_);
            if (!seen.device)
                continue;
            Shadow shadow(operand, std::move(data), seen);
            if (const std::string why = shadow.prepare(); !why.empty())
                return fail(MPI_ERR_NO_MEM, "a buffer on the device cannot be copied to the host: " + why);
            operands_[i] = shadow.substitute();
            shadows_.push_back(std::move(shadow));
        }
        return MPI_SUCCESS;
    }

    int copy(Direction direction, bool all) {
        device::Result result = 0;
        for (const Shadow& shadow : shadows_) {
            if (!all && !shadow.kept())  // MPI failed before it wrote all of it: the device keeps what it had
                continue;
            result =
                direction == Direction::kToHost ? shadow.copy_in(places_, copies_) : shadow.copy_out(places_, copies_);
            if (result != 0)
                break;
        }
        const device::Result finished = copies_.finish();
        if (result == 0)
            result = finished;
        if (result == 0)
            return MPI_SUCCESS;
        return fail(MPI_ERR_OTHER,
                    fmt::format("copying {} failed: {}",
                                direction == Direction::kToHost ? "the buffers from the device to host memory"
                                                                : "the result from host memory to the device",
                                copies_.describe(result)));
    }

    int fail(int mpi_class, const std::string& what) {
        return error::raise(call_, mpi_class, fmt::format("{}: {}", name(call_.id), what));
    }

    const Call& call_;
    std::vector<Operand> operands_;
    Places places_;
    std::vector<Shadow> shadows_;
    Copies copies_;
};

}  // namespace

int run(const Call& call, Real real, std::size_t* bytes) {
    if (bytes != nullptr)
        *bytes = 0;
    try {
        return Staging(call).run(real, bytes);
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

}  // namespace swy::carrier::staged
