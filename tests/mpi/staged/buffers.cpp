#include "buffers.hpp"

#include <algorithm>

namespace staged_test {
namespace {

constexpr std::size_t kGuard = 96;

std::vector<std::byte> noise(Dice& dice, std::size_t bytes) {
    std::vector<std::byte> content(bytes);
    auto state = static_cast<std::uint32_t>(dice.below(1 << 30)) | 1u;
    for (std::byte& byte : content) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<std::byte>(state >> 24);
    }
    return content;
}

void hull(const std::vector<Segment>& segments, MPI_Aint& low, MPI_Aint& high) {
    bool first = true;
    for (const Segment& segment : segments) {
        if (segment.count <= 0)
            continue;
        const MPI_Aint reach = (segment.count - 1) * segment.view->extent;
        const MPI_Aint from = segment.offset + segment.view->low + std::min<MPI_Aint>(reach, 0);
        const MPI_Aint to = segment.offset + segment.view->high + std::max<MPI_Aint>(reach, 0);
        low = first ? from : std::min(low, from);
        high = first ? to : std::max(high, to);
        first = false;
    }
}

// Memory on any of the devices.
gpu::Memory allocate(Dice& dice, const std::vector<std::byte>& content) {
    gpu::Driver& driver = gpu::Driver::get();
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int home = rank % driver.devices;
    driver.use(!plain_only && dice.one_in(6) ? dice.below(driver.devices) : home);
    gpu::Memory memory(draw_kind(dice), content);
    driver.synchronize();  // what this context copies is on its way, for all that another one knows
    driver.use(home);
    return memory;
}

}  // namespace

int devices() {
    return gpu::Driver::get().devices;
}

gpu::Kind draw_kind(Dice& dice) {
    if (plain_only)
        return gpu::Kind::kDevice;
    constexpr gpu::Kind kKinds[] = {gpu::Kind::kDevice,  gpu::Kind::kDevice, gpu::Kind::kDevice,
                                    gpu::Kind::kManaged, gpu::Kind::kHost,   gpu::Kind::kPinned};
    return kKinds[dice.below(static_cast<int>(std::size(kKinds)))];
}

Buffer::Buffer(Dice& dice, const std::vector<Segment>& segments)
    : before_([&] {
          MPI_Aint low = 0, high = 0;
          hull(segments, low, high);
          return noise(dice, static_cast<std::size_t>(high - low) + 2 * kGuard);
      }()),
      host_(before_),
      tested_(allocate(dice, before_)) {
    MPI_Aint low = 0, high = 0;
    hull(segments, low, high);
    host_address_ = host_.data() + kGuard - low;
    tested_address_ = tested_.at(kGuard) - low;
}

bool Buffer::same_start(std::size_t bytes) const {
    const std::vector<std::byte> tested = tested_.read();
    const auto start = static_cast<std::ptrdiff_t>(kGuard + bytes), guard = static_cast<std::ptrdiff_t>(kGuard);
    return std::equal(host_.begin(), host_.begin() + start, tested.begin()) &&
           std::equal(host_.end() - guard, host_.end(), tested.end() - guard);
}

bool Buffer::untouched_around(const View& view, int count) const {
    // Where the data lies, MPI itself says: it unpacks ones there.
    int bytes = 0, position = 0;
    MPI_Pack_size(count, view.type, MPI_COMM_SELF, &bytes);
    const std::vector<std::byte> ones(static_cast<std::size_t>(bytes), std::byte{1});
    std::vector<std::byte> data(before_.size());
    std::byte* const start = data.data() + (static_cast<std::byte*>(host_address_) - host_.data());
    if (count > 0)
        MPI_Unpack(ones.data(), bytes, &position, start, count, view.type, MPI_COMM_SELF);
    const std::vector<std::byte> tested = tested_.read();
    for (std::size_t i = 0; i < data.size(); ++i)
        if (data[i] == std::byte{0} && (host_[i] != before_[i] || tested[i] != before_[i]))
            return false;
    return true;
}

std::string Buffer::difference() const {
    const std::vector<std::byte> tested = tested_.read();
    for (std::size_t i = 0; i < host_.size(); ++i)
        if (host_[i] != tested[i])
            return std::string(gpu::name(tested_.kind())) + " memory, byte " + std::to_string(i) + " of " +
                   std::to_string(host_.size()) + ": reference " + std::to_string(static_cast<int>(host_[i])) +
                   ", tested " + std::to_string(static_cast<int>(tested[i])) +
                   (tested[i] == before_[i] ? " (as before)" : "") +
                   (host_[i] == before_[i] ? " (reference as before)" : "");
    return "none";
}

Scattered::Scattered(Dice& dice, int ints) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> at[2];
    for (int left = ints; left > 0;) {
        const int here = 1 + dice.below(left);
        left -= here;
        const std::vector<std::byte> content = noise(dice, static_cast<std::size_t>(here) * sizeof(int) + 2 * kGuard);
        host_.push_back(content);
        tested_.push_back(allocate(dice, content));
        lengths.push_back(here);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        at[kReference].push_back(reinterpret_cast<MPI_Aint>(host_[i].data() + kGuard));
        at[kTested].push_back(reinterpret_cast<MPI_Aint>(tested_[i].at(kGuard)));
    }
    for (Side side : {kReference, kTested}) {
        MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), at[side].data(), MPI_INT,
                                 &types_[side]);
        MPI_Type_commit(&types_[side]);
    }
}

Scattered::~Scattered() {
    for (MPI_Datatype& type : types_)
        MPI_Type_free(&type);
}

bool Scattered::same() const {
    for (std::size_t i = 0; i < host_.size(); ++i)
        if (host_[i] != tested_[i].read())
            return false;
    return true;
}

}  // namespace staged_test
