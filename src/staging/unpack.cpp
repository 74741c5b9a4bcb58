// Transfers that need no peer: what is copied is in this process already.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/call_scope.hpp"
#include "pack/pack.hpp"
#include "settings/settings.hpp"
#include "staging/pipeline.hpp"

namespace swy::staging {
namespace {

// Pageable memory, and memory on the host on both sides, is copied within the call: about a millisecond at a time.
constexpr std::size_t kBlockingPiece = std::size_t{8} << 20;

// Not where the program's work on the device is waited for with MPI's progress.
bool calls_are_made_at_once(const pack::Payload& payload) {
    return payload.device && settings::values().sync != settings::Sync::kDevice;
}

// A payload and one run of other memory of this process.
class Local final : public Transfer {
  public:
    Local(pack::Direction direction, const pack::Payload& payload, std::byte* other, std::size_t bytes,
          bool asynchronous)
        : direction_(direction),
          other_(other),
          bytes_(bytes),
          piece_(asynchronous ? bytes : kBlockingPiece),
          in_order_(asynchronous),
          context_(calls_are_made_at_once(payload) ? payload.where.context : nullptr),
          packer_(payload, bytes) {
        if (bytes == 0)
            end();
    }

    // The other memory is a payload of the program's too: what is queued on its device comes before the copy.
    void wait_for_program_in(const pack::Payload& payload) { other_device_.emplace(payload, bytes_); }

    bool step() override {
        if (done())
            return false;
        if (copying_) {
            bool over = false;
            check(packer_.query(over));
            if (!over)
                return false;
            copying_ = false;
        }
        if (!failure_.empty() || copied_ == bytes_) {
            end(std::move(failure_));
            return true;
        }
        const device::CallScope scope(context_);
        if (!prepared())
            return false;
        const std::size_t length = std::min(piece_, bytes_ - copied_);
        copying_ = true;
        check(packer_.start(direction_, copied_, length, other_ + copied_));
        copied_ += length;
        return true;
    }

    void give_up(const std::string& why) override {
        if (failure_.empty())
            failure_ = why;
    }

  private:
    bool prepared() {
        if (!prepared_ && in_order_) {
            check(packer_.prepare_in_order());
            prepared_ = failure_.empty();
        } else if (!prepared_) {
            check(packer_.prepare(prepared_));
        }
        if (other_device_.has_value() && !other_prepared_)
            check(other_device_->prepare(other_prepared_));
        return prepared_ && (other_prepared_ || !other_device_.has_value());
    }

    void check(device::Result result) {
        if (result != 0 && failure_.empty())
            failure_ = fmt::format("copying the data within the process failed: {}", pack::Packer::describe(result));
    }

    const pack::Direction direction_;
    std::byte* const other_;
    const std::size_t bytes_, piece_;
    const bool in_order_;  // the stream's: nothing is waited for but the copy itself
    const device::Context context_;
    pack::Packer packer_;
    std::optional<pack::Packer> other_device_;
    std::size_t copied_ = 0;
    bool prepared_ = false, other_prepared_ = false, copying_ = false;
    std::string failure_;
};

// Several copies that are made at once.
class AllCopies final : public Transfer {
  public:
    void add(std::unique_ptr<Transfer> copy) { all_.push_back(std::move(copy)); }

    bool step() override {
        bool moved = false, over = true;
        for (const auto& copy : all_) {
            moved |= !copy->done() && copy->step();
            over &= copy->done();
        }
        if (over && !done()) {
            const auto failed =
                std::find_if(all_.begin(), all_.end(), [](const auto& c) { return !c->failure().empty(); });
            end(failed == all_.end() ? std::string{} : (*failed)->failure());
        }
        return moved;
    }

    void give_up(const std::string& why) override {
        for (const auto& copy : all_)
            if (!copy->done())
                copy->give_up(why);
    }

  private:
    std::vector<std::unique_ptr<Transfer>> all_;
};

pack::Payload stretch(const pack::Payload& whole, std::size_t run, std::size_t at, std::size_t length) {
    pack::Payload part;
    part.data = whole.part(run) + at % whole.part_bytes();
    part.address = part.data;
    part.layout = datatype::layout_of(MPI_BYTE);
    part.count = part.bytes = length;
    part.contiguous = part.device = true;
    part.where = whole.devices()[run];
    return part;
}

// With unified addressing the driver sees from the addresses which memory is whose.
std::unique_ptr<Transfer> copy_run(const pack::Payload& to, const pack::Payload& from, std::size_t bytes) {
    if (!to.device)
        return std::make_unique<Local>(pack::Direction::kToHost, from, to.data, bytes, false);
    auto transfer = std::make_unique<Local>(pack::Direction::kToDevice, to, from.data, bytes, from.device);
    if (from.device)
        transfer->wait_for_program_in(from);
    return transfer;
}

}  // namespace

std::unique_ptr<Transfer> unpack(const pack::Payload& payload, std::size_t bytes, const std::byte* packed,
                                 bool page_locked) {
    return std::make_unique<Local>(pack::Direction::kToDevice, payload, const_cast<std::byte*>(packed), bytes,
                                   page_locked && payload.device);
}

std::unique_ptr<Transfer> pack(const pack::Payload& payload, std::byte* packed, bool page_locked) {
    return std::make_unique<Local>(pack::Direction::kToHost, payload, packed, payload.bytes,
                                   page_locked && payload.device);
}

std::unique_ptr<Transfer> copy(const pack::Payload& to, const pack::Payload& from, std::size_t bytes) {
    if (to.parts() == 1 && from.parts() == 1)
        return copy_run(to, from, bytes);
    auto copies = std::make_unique<AllCopies>();
    pack::each_stretch(bytes, to.part_bytes(), from.part_bytes(),
                       [&](std::size_t into, std::size_t of, std::size_t at, std::size_t length) {
                           copies->add(copy_run(stretch(to, into, at, length), stretch(from, of, at, length), length));
                       });
    return copies;
}

}  // namespace swy::staging
