#include "ext/stream/staged_operand.hpp"

#include <fmt/format.h>

#include <climits>
#include <cstring>
#include <utility>

#include "call/depth.hpp"
#include "ext/stream/communicator.hpp"
#include "pack/kernel_pack.hpp"
#include "real.hpp"
#include "staging/staged.hpp"

namespace swy::stream {
namespace {

std::string failed(const char* step, device::Result result) {
    return result == 0 ? std::string{} : fmt::format("{}: {}", step, device::describe(result));
}

// Host functions on the stream: they call neither CUDA nor MPI.
void fetch(void* copy) {
    auto* c = static_cast<HostCopy*>(copy);
    std::memcpy(c->pinned.data(), c->program, c->bytes);
}
void deliver(void* copy) {
    auto* c = static_cast<HostCopy*>(copy);
    std::memcpy(c->program, c->pinned.data(), c->bytes);
    c->done.store(true, std::memory_order_release);
}
void pass(void* copy) {
    static_cast<HostCopy*>(copy)->done.store(true, std::memory_order_release);
}

}  // namespace

HostCopy* HostCopies::add() {
    all_.remove_if([](const HostCopy& copy) { return copy.done.load(std::memory_order_acquire); });
    return &all_.emplace_back();
}

std::string StagedOperand::stage(Communicator& comm, const What& what) {
    what_ = what;
    layout_ = datatype::layout_of(what.type);
    program_ = static_cast<std::byte*>(what.address) + layout_->true_lb;
    bytes_ = what.count * layout_->size;
    if (bytes_ == 0)
        return {};
    if (what.elements && !layout_->contiguous)
        bytes_ = (what.count - 1) * static_cast<std::size_t>(layout_->extent) +
                 static_cast<std::size_t>(layout_->true_extent);
    how_ = choose(comm);
    data_ = program_;
    if (how_ == How::kAsIs)
        return {};
    std::string failure =
        failed("device memory for a buffer", device::Scratch::acquire(comm.where.context, bytes_, scratch_));
    data_ = static_cast<std::byte*>(scratch_.data());
    return failure;
}

bool StagedOperand::is_here(const Communicator& comm, const void* first) {
    const device::Location location = device::locate(first);
    return location.on_device() && location.primary && (location.any_device || location.ordinal == comm.where.ordinal);
}

StagedOperand::How StagedOperand::choose(Communicator& comm) {
    const bool here = is_here(comm, program_);
    const bool adjacent = layout_->contiguous || what_.elements;
    if (here && adjacent)
        return How::kAsIs;
    if (adjacent)
        return device::locate(program_).kind == device::Kind::kHost ? How::kByFunction : How::kCopied;
    if (!here || !what_.kernels || layout_->plan == nullptr || !comm.device_stream.has_kernels())
        return How::kWaiting;
    pack::MemoryRanges slots;
    pack::MemoryRange slot;
    const pack::Elements elements{layout_.get(), what_.count, reinterpret_cast<std::uintptr_t>(what_.address)};
    return pack::in_one_place(elements, slots, slot) ? How::kKernel : How::kWaiting;
}

std::string StagedOperand::kernel(Communicator& comm, bool in) {
    using pack::Direction;
    const pack::Elements elements{layout_.get(), what_.count, reinterpret_cast<std::uintptr_t>(what_.address)};
    return failed(in ? "packing by a kernel" : "unpacking by a kernel",
                  pack::queue_kernel(comm.device_stream, in ? Direction::kToHost : Direction::kToDevice, elements, 0,
                                     bytes_, data_));
}

std::string StagedOperand::in(Communicator& comm) {
    // Elements with gaps are copied back with the previous contents of the gaps, so they are read too.
    const bool reads = what_.access != Access::kOut || (what_.elements && !layout_->contiguous);
    if (bytes_ == 0 || !reads)
        return {};
    switch (how_) {
        case How::kAsIs:
            return {};
        case How::kKernel:
            return kernel(comm, true);
        case How::kCopied:
            return failed("copying a buffer to the device", comm.device_stream.copy(data_, program_, bytes_));
        case How::kWaiting:
            return pack(comm);
        case How::kByFunction:
            break;
    }
    HostCopy& copy = *comm.host_copies.add();
    if (const device::Result got = device::Pinned::acquire(comm.where.context, bytes_, copy.pinned); got != 0)
        return failed("page-locked memory for a buffer", got);
    if (!copy.pinned.page_locked()) {  // CUDA would make the copy at once
        copy.done = true;
        how_ = How::kWaiting;
        return pack(comm);
    }
    copy.program = program_;
    copy.bytes = bytes_;
    device::Result result = comm.device_stream.call_host(fetch, &copy);
    if (result == 0)
        result = comm.device_stream.copy(data_, copy.pinned.data(), bytes_);
    if (result == 0)
        result = comm.device_stream.call_host(pass, &copy);
    return failed("copying a buffer to the device", result);
}

std::string StagedOperand::out(Communicator& comm) {
    if (bytes_ == 0 || what_.access == Access::kIn)
        return {};
    switch (how_) {
        case How::kAsIs:
            return {};
        case How::kKernel:
            return kernel(comm, false);
        case How::kCopied:
            return failed("copying a result from the device", comm.device_stream.copy(program_, data_, bytes_));
        case How::kWaiting:
            return unpack(comm);
        case How::kByFunction:
            break;
    }
    HostCopy& copy = *comm.host_copies.add();
    if (const device::Result got = device::Pinned::acquire(comm.where.context, bytes_, copy.pinned); got != 0)
        return failed("page-locked memory for a result", got);
    if (!copy.pinned.page_locked()) {
        copy.done = true;
        return unpack(comm);
    }
    copy.program = program_;
    copy.bytes = bytes_;
    device::Result result = comm.device_stream.copy(copy.pinned.data(), data_, bytes_);
    if (result == 0)
        result = comm.device_stream.call_host(deliver, &copy);
    return failed("copying a result from the device", result);
}

// Packs by MPI_Pack, which the staged carrier makes for any memory. Elements with gaps are packed as the bytes that
// they span.
std::string StagedOperand::pack(Communicator& comm) {
    if (std::string failure = comm.wait_for_stream(); !failure.empty())
        return failure;
    if (bytes_ > INT_MAX || what_.count > INT_MAX)
        return "a buffer of this layout, memory and size is too large to be packed by the host";
    if (const device::Result got = device::Pinned::acquire(comm.where.context, bytes_, pinned_); got != 0)
        return failed("host memory for a buffer", got);
    const bool span = what_.elements || layout_->contiguous;
    const Operand operands[] = {
        {.address = span ? program_ : what_.address,
         .count = static_cast<MPI_Count>(span ? bytes_ : what_.count),
         .type = span ? MPI_BYTE : what_.type},
        {.address = pinned_.data(), .count = static_cast<MPI_Count>(bytes_), .type = MPI_BYTE, .access = Access::kOut},
    };
    const Call call{.id = CallId::kPack, .owner = Owner(comm.handle), .operands = operands};
    const auto real = [&](const Operand* use) {
        int position = 0;
        return real::Pack(use[0].address, static_cast<int>(use[0].count), use[0].type, use[1].address,
                          static_cast<int>(bytes_), &position, comm.handle);
    };
    const call::Inside guard;
    if (staging::run(call, real) != MPI_SUCCESS)
        return "MPI_Pack of a buffer has failed";
    std::string failure =
        failed("copying a buffer to the device", comm.device_stream.copy(data_, pinned_.data(), bytes_));
    // The memory is freed with this object, so the stream is waited for.
    return failure.empty() ? comm.wait_for_stream() : failure;
}

std::string StagedOperand::unpack(Communicator& comm) {
    if (bytes_ > INT_MAX || what_.count > INT_MAX)
        return "a result of this layout, memory and size is too large to be unpacked by the host";
    if (const device::Result got = device::Pinned::acquire(comm.where.context, bytes_, pinned_); got != 0)
        return failed("host memory for a result", got);
    if (const device::Result copied = comm.device_stream.copy(pinned_.data(), data_, bytes_); copied != 0)
        return failed("copying a result from the device", copied);
    if (std::string failure = comm.wait_for_stream(); !failure.empty())
        return failure;
    const bool span = what_.elements || layout_->contiguous;
    const Operand operands[] = {
        {.address = pinned_.data(), .count = static_cast<MPI_Count>(bytes_), .type = MPI_BYTE},
        {.address = span ? program_ : what_.address,
         .count = static_cast<MPI_Count>(span ? bytes_ : what_.count),
         .type = span ? MPI_BYTE : what_.type,
         .access = Access::kOut},
    };
    const Call call{.id = CallId::kUnpack, .owner = Owner(comm.handle), .operands = operands};
    const auto real = [&](const Operand* use) {
        int position = 0;
        return real::Unpack(use[0].address, static_cast<int>(bytes_), &position, use[1].address,
                            static_cast<int>(use[1].count), use[1].type, comm.handle);
    };
    const call::Inside guard;
    return staging::run(call, real) == MPI_SUCCESS ? std::string{} : "MPI_Unpack of a result has failed";
}

}  // namespace swy::stream
