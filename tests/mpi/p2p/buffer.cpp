#include "buffer.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace p2p_test {
namespace {

constexpr std::size_t kGuard = 96;
constexpr int kMostInOneUnit = 4096;

gpu::Kind draw_kind(Dice& dice, const Gpus& gpus) {
    constexpr gpu::Kind kKinds[] = {gpu::Kind::kDevice,  gpu::Kind::kDevice, gpu::Kind::kDevice,
                                    gpu::Kind::kManaged, gpu::Kind::kHost,   gpu::Kind::kPinned};
    return gpus.devices == 0 ? gpu::Kind::kHost : kKinds[dice.below(static_cast<int>(std::size(kKinds)))];
}

// Memory on any of the devices, mostly on the own one.
gpu::Memory allocate(Dice& dice, const Gpus& gpus, const Bytes& content, bool plain = false) {
    const gpu::Kind kind = plain && gpus.devices > 0 ? gpu::Kind::kDevice : draw_kind(dice, gpus);
    if (gpus.devices == 0)
        return gpu::Memory(kind, content);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(dice.one_in(plain ? 30 : 6) ? dice.below(gpus.devices) : gpus.home);
    gpu::Memory memory(kind, content);
    driver.synchronize();  // what this context copies is on its way, for all that another one knows
    driver.use(gpus.home);
    return memory;
}

// How many elements of the base type one element of the derived type has; what is sent must be a whole number.
int draw_unit(Dice& dice, int elements, bool sent) {
    const int drawn = elements > 0 && elements <= kMostInOneUnit && dice.one_in(5) ? elements : 1 + dice.below(8);
    return !sent || elements % drawn == 0 ? drawn : 1;
}

}  // namespace

Bytes noise(std::uint64_t seed, std::size_t bytes) {
    Bytes content(bytes);
    for (std::size_t i = 0; i < bytes; i += sizeof seed) {
        seed += 0x9e3779b97f4a7c15u;  // splitmix64
        std::uint64_t word = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
        word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
        word ^= word >> 31;
        std::memcpy(&content[i], &word, std::min(sizeof word, bytes - i));
    }
    return content;
}

Gpus find_gpus(int rank) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    auto* start = library == nullptr ? nullptr : reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
    if (start == nullptr || start(0) != 0)
        return {};
    const int devices = gpu::Driver::get().devices;
    return {devices, devices > 0 ? rank % devices : 0};
}

void Gpus::take_home() const {
    if (devices > 0)
        gpu::Driver::get().use(home);
}

// Open MPI itself writes a message that is too long beyond a receive in host memory, where its transport is TCP.
Buffer::Buffer(Dice& dice, const Gpus& gpus, End end, MPI_Datatype base, int elements, bool plain, int missing) {
    MPI_Type_size(base, &bytes_);
    beyond_ = static_cast<std::size_t>(missing) * static_cast<std::size_t>(bytes_);
    if (elements >= 4 && !plain && dice.one_in(14))
        many_blocks(dice, gpus, base, elements);
    else
        one_block(dice, gpus, end, base, elements, plain && !dice.one_in(10));
}

Buffer::~Buffer() {
    if (!layout_)
        MPI_Type_free(&type_);
}

void Buffer::one_block(Dice& dice, const Gpus& gpus, End end, MPI_Datatype base, int elements, bool plain) {
    unit_ = draw_unit(dice, elements, end == End::kSent);
    count_ = (elements + unit_ - 1) / unit_;
    layout_.emplace(plain ? make_plain_layout(base, unit_) : make_layout(dice, base, unit_, count_, end == End::kSent));
    type_ = layout_->type;
    const MPI_Aint reach = count_ > 0 ? (count_ - 1) * layout_->extent + layout_->high : 0;
    origin_ = kGuard + static_cast<std::size_t>(std::max<MPI_Aint>(0, -layout_->low));
    Bytes image = noise(static_cast<std::uint64_t>(dice.below(1 << 30)),
                        origin_ + static_cast<std::size_t>(std::max<MPI_Aint>(0, reach)) + kGuard + beyond_);
    gpu::Memory memory = allocate(dice, gpus, image, plain);
    address_ = memory.at(origin_);
    what_ = std::string(gpu::name(memory.kind())) + ", " + std::to_string(count_) + " of " + std::to_string(unit_) +
            " elements, extent " + std::to_string(layout_->extent);
    pieces_.push_back({std::move(image), std::move(memory)});
}

// Blocks in memories of their own, of any kind, given to MPI by their absolute addresses.
void Buffer::many_blocks(Dice& dice, const Gpus& gpus, MPI_Datatype base, int elements) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> addresses;
    what_ = "absolute addresses:";
    for (int done = 0; done < elements; done += lengths.back()) {
        const bool last = lengths.size() == 3;
        lengths.push_back(last ? elements - done : 1 + dice.below(elements - done));
        first_.push_back(done);
        Bytes image =
            noise(static_cast<std::uint64_t>(dice.below(1 << 30)),
                  static_cast<std::size_t>(lengths.back()) * static_cast<std::size_t>(bytes_) + 2 * kGuard + beyond_);
        gpu::Memory memory = allocate(dice, gpus, image);
        addresses.push_back(reinterpret_cast<MPI_Aint>(memory.at(kGuard)));
        what_ += std::string(" ") + gpu::name(memory.kind()) + " " + std::to_string(lengths.back());
        pieces_.push_back({std::move(image), std::move(memory)});
    }
    MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), addresses.data(), base, &type_);
    MPI_Type_commit(&type_);
    unit_ = elements;
    count_ = 1;
    address_ = MPI_BOTTOM;
}

Buffer::Place Buffer::place(int element) const {
    if (layout_) {
        const MPI_Aint at =
            MPI_Aint{element / unit_} * layout_->extent + layout_->where[static_cast<std::size_t>(element % unit_)];
        return {0, origin_ + static_cast<std::size_t>(at)};
    }
    const auto after = std::upper_bound(first_.begin(), first_.end(), element);
    const auto piece = static_cast<std::size_t>(after - first_.begin()) - 1;
    return {piece, kGuard + static_cast<std::size_t>(element - first_[piece]) * static_cast<std::size_t>(bytes_)};
}

void Buffer::expect(const Bytes& data) {
    const auto size = static_cast<std::size_t>(bytes_);
    for (std::size_t i = 0; i * size < data.size(); ++i) {
        const Place here = place(static_cast<int>(i));
        std::memcpy(&pieces_[here.piece].image[here.offset], &data[i * size], size);
    }
}

void Buffer::put(const Bytes& data) {
    expect(data);
    for (Piece& piece : pieces_)
        piece.memory.write(piece.image);
    // Copies between the host and managed or pinned memory may be asynchronous with respect to other contexts.
    if (std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& p) { return p.memory.kind() != gpu::Kind::kHost; }))
        gpu::Driver::get().synchronize();
}

void Buffer::forget() {
    std::vector<Bytes> now;
    for (Piece& piece : pieces_) {
        now.push_back(piece.memory.read());
        if (piece.memory.kind() != gpu::Kind::kDevice && beyond_ > 0)
            std::copy(now.back().end() - static_cast<std::ptrdiff_t>(kGuard + beyond_), now.back().end(),
                      piece.image.end() - static_cast<std::ptrdiff_t>(kGuard + beyond_));
    }
    for (int i = 0; i < room(); ++i) {
        const Place here = place(i);
        std::memcpy(&pieces_[here.piece].image[here.offset], &now[here.piece][here.offset],
                    static_cast<std::size_t>(bytes_));
    }
}

std::string Buffer::difference() const {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
        const Bytes now = pieces_[p].memory.read();
        const Bytes& image = pieces_[p].image;
        const auto found = std::mismatch(now.begin(), now.end(), image.begin());
        if (found.first == now.end())
            continue;
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < now.size(); ++i)
            wrong += now[i] != image[i];
        return what_ + ": piece " + std::to_string(p) + ", byte " + std::to_string(found.first - now.begin()) + " of " +
               std::to_string(now.size()) + " is " + std::to_string(static_cast<int>(*found.first)) + ", not " +
               std::to_string(static_cast<int>(*found.second)) + " (" + std::to_string(wrong) + " bytes are wrong)";
    }
    return {};
}

}  // namespace p2p_test
