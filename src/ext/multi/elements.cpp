#include "ext/multi/elements.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "real.hpp"

namespace swy::multi {
namespace {

constexpr MPI_Count kMostBytes = MPI_Count{1} << 30;  // what fits into MPI_Pack's int arguments

template <typename Step>
void in_steps(const datatype::Layout& layout, MPI_Count count, Step step) {
    const MPI_Count most = std::max<MPI_Count>(1, kMostBytes / static_cast<MPI_Count>(layout.size));
    for (MPI_Count done = 0; done < count;) {
        const MPI_Count now = std::min(most, count - done);
        step(done, static_cast<int>(now), static_cast<int>(now * static_cast<MPI_Count>(layout.size)));
        done += now;
    }
}

}  // namespace

std::byte* element(const Operand& operand, MPI_Count number) {
    return static_cast<std::byte*>(operand.address) + number * datatype::layout_of(operand.type)->extent;
}

void to_bytes(const Operand& operand, MPI_Count first, MPI_Count count, std::byte* bytes) {
    const auto layout = datatype::layout_of(operand.type);
    if (layout->size == 0 || count <= 0)
        return;
    const std::byte* from = element(operand, first);
    if (layout->contiguous) {
        std::memcpy(bytes, from + layout->true_lb, static_cast<std::size_t>(count) * layout->size);
        return;
    }
    in_steps(*layout, count, [&](MPI_Count done, int now, int size) {
        int position = 0;
        real::Pack(from + done * layout->extent, now, operand.type, bytes + done * static_cast<MPI_Count>(layout->size),
                   size, &position, MPI_COMM_SELF);
    });
}

void from_bytes(const std::byte* bytes, const Operand& operand, MPI_Count first, MPI_Count count) {
    const auto layout = datatype::layout_of(operand.type);
    if (layout->size == 0 || count <= 0)
        return;
    std::byte* to = element(operand, first);
    if (layout->contiguous) {
        std::memcpy(to + layout->true_lb, bytes, static_cast<std::size_t>(count) * layout->size);
        return;
    }
    in_steps(*layout, count, [&](MPI_Count done, int now, int size) {
        int position = 0;
        real::Unpack(bytes + done * static_cast<MPI_Count>(layout->size), size, &position, to + done * layout->extent,
                     now, operand.type, MPI_COMM_SELF);
    });
}

Elements::Elements(MPI_Datatype type, MPI_Count count) {
    const auto layout = datatype::layout_of(type);
    extent_ = layout->extent;
    operand_ = {.count = count, .type = type, .access = Access::kInOut};
    if (count <= 0)
        return;
    // The lowest byte of any element, and one past the highest.
    const MPI_Aint reach = (count - 1) * layout->extent;
    const MPI_Aint low = std::min<MPI_Aint>(0, reach) + std::min<MPI_Aint>(0, layout->true_lb);
    const MPI_Aint high = std::max<MPI_Aint>(0, reach) + std::max<MPI_Aint>(0, layout->true_lb + layout->true_extent);
    memory_ = std::make_unique<std::byte[]>(static_cast<std::size_t>(high - low) + 1);
    operand_.address = memory_.get() - low;
}

std::byte* Elements::at(MPI_Count element) const {
    return static_cast<std::byte*>(operand_.address) + element * extent_;
}

void copy(const Operand& from, MPI_Count from_first, const Operand& to, MPI_Count to_first, MPI_Count count) {
    const auto layout = datatype::layout_of(from.type);
    if (layout->contiguous && datatype::layout_of(to.type)->contiguous) {
        to_bytes(from, from_first, count, element(to, to_first) + datatype::layout_of(to.type)->true_lb);
        return;
    }
    const std::unique_ptr<std::byte[]> bytes(new std::byte[static_cast<std::size_t>(count) * layout->size + 1]);
    to_bytes(from, from_first, count, bytes.get());
    from_bytes(bytes.get(), to, to_first, count);
}

int reduce(const std::byte* in, std::byte* inout, int count, MPI_Datatype type, MPI_Op op) {
    return real::Reduce_local(in, inout, count, type, op);
}

}  // namespace swy::multi
