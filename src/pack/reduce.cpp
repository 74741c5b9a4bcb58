#include "pack/reduce.hpp"

#include <new>
#include <thread>

#include "progress/wait.hpp"
#include "settings/settings.hpp"

namespace swy::pack {
namespace {

// Tells whether the operand is in one allocation of a device, aligned for a kernel on elements of this size.
bool suits(const Operand& operand, const datatype::Reduction& what, const device::Location& location) {
    const auto address = reinterpret_cast<std::uintptr_t>(operand.address);
    return location.on_device() && location.context != nullptr && address % what.alignment == 0 &&
           address >= location.begin && address < location.end &&
           static_cast<std::uintptr_t>(operand.count) <= (location.end - address) / what.bytes;
}

}  // namespace

Reason prepare(const Call& call, Reducing& reducing) {
    const Operand &in = call.operands.front(), &inout = call.operands.back();
    if (in.count <= 0)
        return Reason::kSmall;
    try {
        if (!device::kernels_built() || !datatype::find_reduction(in.type, call.op, reducing.what))
            return Reason::kOperator;
        const device::Location from = device::locate(in.address), to = device::locate(inout.address);
        if (from.context != to.context || !suits(in, reducing.what, from) || !suits(inout, reducing.what, to))
            return Reason::kMixed;
        if (device::Stream::acquire(to.context, reducing.stream) != 0 || !reducing.stream.has_kernels())
            return Reason::kOperator;
    } catch (const std::bad_alloc&) {
        return Reason::kNoMemory;
    }
    reducing.work = {reinterpret_cast<std::uintptr_t>(in.address), reinterpret_cast<std::uintptr_t>(inout.address),
                     static_cast<std::uint64_t>(in.count), reducing.what.op};
    return Reason::kNone;
}

std::string run(Reducing& reducing) {
    const auto kernel = static_cast<device::Kernel>(static_cast<int>(device::Kernel::kReduceInt8) +
                                                    static_cast<int>(reducing.what.type));
    const progress::Deadline deadline(settings::values().timeout);
    device::Stream& stream = reducing.stream;
    device::Result result = progress::wait_for_program(stream);
    if (result == 0)
        result = stream.launch(kernel, reducing.work.count, &reducing.work);
    if (result == 0)
        result = stream.record();
    for (bool done = false; result == 0;) {
        result = stream.query(done);
        if (done)
            break;
        if (deadline.passed())
            return "not finished when SWITCHYARD_TIMEOUT had passed: the program's own work on the device may hang";
        progress::progress();
        std::this_thread::yield();
    }
    return result == 0 ? std::string() : device::describe(result);
}

}  // namespace swy::pack
