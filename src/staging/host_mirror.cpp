#include "staging/host_mirror.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <climits>
#include <new>
#include <utility>

#include "call/counted.hpp"
#include "datatype/plan.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::staging {
namespace {

// Room to place a mirror in its cache lines as the program's data lies in its own, and away from addresses that mean
// something to MPI.
constexpr std::size_t kLine = 64, kSlack = 4 * kLine;

// Under this size a copy costs no more from pageable memory, and a block of page-locked memory is larger.
constexpr std::size_t kSmall = std::size_t{8} << 10;

bool means_something(std::uintptr_t address) {
    const auto* pointer = reinterpret_cast<const void*>(address);
    return pointer == MPI_BOTTOM || pointer == MPI_IN_PLACE;
}

// Makes a type of `size` bytes without structure, committed. MPI_DATATYPE_NULL when MPI has none to give.
MPI_Datatype make_bytes_type(std::size_t size) {
    const call::Counted bytes(static_cast<MPI_Count>(size), MPI_BYTE);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    real::Type_contiguous(bytes.count(), bytes.type(), &type);
    if (type != MPI_DATATYPE_NULL)
        real::Type_commit(&type);
    return type;
}

class Surveyor final : public pack::Visitor {
  public:
    Survey result;

    device::Result visit(const pack::Segment&, const pack::Sheet& sheet, const pack::MemoryRange& place) override {
        result.low = result.bytes == 0 ? sheet.low() : std::min(result.low, sheet.low());
        result.high = result.bytes == 0 ? sheet.high() : std::max(result.high, sheet.high());
        result.bytes += sheet.width * sheet.rows;
        if (place.device && !result.device) {
            result.device = true;
            result.context = place.context;
        }
        return 0;
    }
};

class Copier final : public pack::Visitor {
  public:
    Copier(const HostMirror& mirror, pack::Copies& copies, pack::Direction direction)
        : mirror_(mirror), copies_(copies), direction_(direction) {}

    device::Result visit(const pack::Segment& segment, const pack::Sheet& sheet,
                         const pack::MemoryRange& place) override {
        return copies_.queue(direction_, sheet, place, mirror_.host_side(segment, sheet));
    }

  private:
    const HostMirror& mirror_;
    pack::Copies& copies_;
    const pack::Direction direction_;
};

class Awaiter final : public pack::Visitor {
  public:
    explicit Awaiter(pack::Copies& copies) : copies_(copies) {}
    device::Result visit(const pack::Segment&, const pack::Sheet&, const pack::MemoryRange& place) override {
        return copies_.await_program(place);
    }

  private:
    pack::Copies& copies_;
};

}  // namespace

Memory::~Memory() {
    if (mapped_ != 0)
        munmap(data_, mapped_);
}

Memory::Memory(Memory&& other) noexcept
    : pinned_(std::move(other.pinned_)),
      heap_(std::move(other.heap_)),
      data_(std::exchange(other.data_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)) {}

bool Memory::acquire(device::Context context, std::size_t bytes, std::size_t used, Use use) {
    if (use == Use::kMany && bytes <= kSmall) {
        heap_.reset(new (std::nothrow) std::byte[bytes]);
        data_ = heap_.get();
        return data_ != nullptr;
    }
    const bool dense = bytes / 4 <= used + kSlack;
    if (dense && bytes <= settings::values().pinned_pool && device::Pinned::acquire(context, bytes, pinned_) == 0) {
        data_ = static_cast<std::byte*>(pinned_.data());
        return true;
    }
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return false;
    if (dense)
        madvise(pages, bytes,
                MADV_HUGEPAGE);  // touched once and given back: fewer pages where the system has larger ones
    data_ = static_cast<std::byte*>(pages);
    mapped_ = bytes;
    return true;
}

Survey survey(const Operand& operand, const pack::Data& data, pack::MemoryRanges& places) {
    Surveyor all;
    pack::walk(data.reads, operand.address, places, all);
    if (!data.kept)  // otherwise what is written is read as well
        pack::walk(data.writes, operand.address, places, all);
    return all.result;
}

HostMirror::HostMirror(HostMirror&& other) noexcept
    : operand_(other.operand_),
      data_(std::move(other.data_)),
      survey_(other.survey_),
      memory_(std::move(other.memory_)),
      moved_(other.moved_),
      packed_(other.packed_),
      made_(std::exchange(other.made_, {})),
      types_(std::move(other.types_)),
      displs_(std::move(other.displs_)),
      offsets_(std::move(other.offsets_)) {}

HostMirror::~HostMirror() {
    for (auto& [size, type] : made_)
        real::Type_free(&type);
}

std::string HostMirror::prepare(Use use, Form form) {
    return form == Form::kBetter && better_packed() && make_types() ? prepare_packed(use) : prepare_span(use);
}

bool HostMirror::acquire(std::size_t bytes, Use use) {
    return memory_.acquire(survey_.context, bytes, use == Use::kSeldom ? 0 : survey_.bytes, use);
}

// Data stays as the program has it where that covers not much more than the data; it is packed where gaps prevail, or
// where a kernel packs it.
bool HostMirror::better_packed() const {
    if (!data_.substitutable)
        return false;
    if (survey_.high - survey_.low > 2 * survey_.bytes)
        return true;
    const auto suits = [](const pack::Segment& segment) {
        return datatype::suits_kernel(*segment.layout, segment.count);
    };
    return device::kernels_built() && (std::any_of(data_.reads.begin(), data_.reads.end(), suits) ||
                                       std::any_of(data_.writes.begin(), data_.writes.end(), suits));
}

std::size_t HostMirror::element() const {
    return datatype::size_of(operand_.type);
}

// Makes the types, and the displacements where there are some, of the packed form. False where an int cannot hold one.
bool HostMirror::make_types() {
    const auto bytes = [this](std::size_t size) {
        const auto [place, fresh] = made_.try_emplace(size, MPI_DATATYPE_NULL);
        if (fresh)
            place->second = make_bytes_type(size);
        return place->second;
    };
    const bool typed = operand_.types != nullptr;  // then displacements are bytes, elements of one type otherwise
    const std::size_t element = typed ? 1 : datatype::size_of(operand_.type);
    if (!typed)
        types_.push_back(bytes(element));
    for (std::size_t r = 0; r < data_.blocks.size(); ++r) {
        const std::size_t at = data_.blocks[r] / element;
        const bool large = operand_.width != Width::kInt;
        if (!large && at > INT_MAX)
            return false;
        offsets_.push_back(static_cast<MPI_Aint>(at));
        displs_.push_back(large ? 0 : static_cast<int>(at));
        if (!typed)
            continue;
        const std::size_t size = operand_.counts()[r] > 0 ? datatype::size_of(operand_.types[r]) : 0;
        types_.push_back(size > 0 ? bytes(size) : operand_.types[r]);
    }
    return std::none_of(made_.begin(), made_.end(), [](const auto& made) { return made.second == MPI_DATATYPE_NULL; });
}

std::string HostMirror::prepare_packed(Use use) {
    std::size_t end = 0;
    for (const std::vector<pack::Segment>* part : {&data_.reads, &data_.writes})
        for (const pack::Segment& segment : *part)
            end = std::max(end, segment.packed + segment.count * segment.layout->size);
    if (!acquire(end + kSlack, use))
        return std::to_string(end) + " bytes of host memory are not to be had";
    packed_ = memory_.data();
    return {};
}

std::string HostMirror::prepare_span(Use use) {
    const std::size_t span = survey_.high - survey_.low;
    if (!acquire(span + kSlack, use))
        return "its " + std::to_string(survey_.bytes) + " bytes of data are spread over " + std::to_string(span) +
               " bytes of addresses, and so much host address space is not to be had";
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data());
    moved_ = start + (survey_.low - start) % kLine - survey_.low;
    while (means_something(reinterpret_cast<std::uintptr_t>(operand_.address) + moved_))
        moved_ += kLine;
    return {};
}

Operand HostMirror::substitute() const {
    Operand use = operand_;
    if (packed_ != nullptr) {
        use.address = packed_;
        if (operand_.types != nullptr)
            use.types = types_.data();
        else
            use.type = types_.front();
        if (operand_.displ_array != nullptr)
            use.displ_array =
                operand_.width == Width::kInt ? static_cast<const void*>(displs_.data()) : offsets_.data();
    } else {
        use.address = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(operand_.address) + moved_);
    }
    return use;
}

pack::HostSide HostMirror::host_side(const pack::Segment& segment, const pack::Sheet& sheet) const {
    if (packed_ == nullptr)
        return {reinterpret_cast<std::byte*>(sheet.address + moved_), sheet.stride, memory_.pageable()};
    return {packed_ + segment.packed + sheet.packed, static_cast<MPI_Aint>(sheet.packed_stride), memory_.pageable()};
}

device::Result HostMirror::copy(pack::MemoryRanges& places, pack::Copies& copies, pack::Direction direction,
                                const std::vector<pack::Segment>& all) const {
    Copier copier(*this, copies, direction);
    if (packed_ == nullptr || memory_.pageable())
        return pack::walk(all, operand_.address, places, copier);
    for (const pack::Segment& segment : all) {
        device::Result result = 0;
        if (!copies.queue_by_kernel(direction, segment, operand_.address, places, packed_ + segment.packed, result))
            result = pack::walk({segment}, operand_.address, places, copier);
        if (result != 0)
            return result;
    }
    return 0;
}

device::Result HostMirror::copy_in(pack::MemoryRanges& places, pack::Copies& copies) const {
    return copy(places, copies, pack::Direction::kToHost, data_.reads);
}

device::Result HostMirror::await_program(pack::MemoryRanges& places, pack::Copies& copies) const {
    Awaiter awaiter(copies);
    return pack::walk(data_.writes, operand_.address, places, awaiter);
}

device::Result HostMirror::copy_out(pack::MemoryRanges& places, pack::Copies& copies) const {
    return copy(places, copies, pack::Direction::kToDevice, data_.writes);
}

}  // namespace swy::staging
