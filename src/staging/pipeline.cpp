#include "staging/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "error/error.hpp"
#include "pack/pack.hpp"
#include "progress/keep_until.hpp"
#include "settings/settings.hpp"
#include "staging/messages.hpp"

namespace swy::staging {
namespace {

constexpr const char* kToHostFailed = "copying the message from the device to host memory failed";
constexpr const char* kToDeviceFailed = "copying the message from host memory to the device failed";
constexpr const char* kWriteFailed = "copying the message into device memory of the receiver's process failed";
constexpr const char* kReadFailed = "copying the message out of device memory that its sender has written failed";

// A message of `bytes` bytes that goes chunk after chunk, and what has gone wrong with it.
class Chunked : public Transfer {
  public:
    void give_up(const std::string& why) override {
        fail(why);
        given_up_ = true;
    }

    bool step() final {
        if (done())
            return false;
        try {
            return advance();
        } catch (const std::bad_alloc&) {
            give_up("no host memory");
            return true;
        }
    }

  protected:
    Chunked(std::size_t bytes, std::size_t chunk, const Route& route)
        : bytes_(bytes), chunk_(chunk), chunks_((bytes + chunk_ - 1) / chunk_), messages_(route) {
        if (bytes == 0)
            end();
    }

    virtual bool advance() = 0;

    std::size_t offset_of(std::size_t chunk) const { return chunk * chunk_; }
    std::size_t length_of(std::size_t chunk) const { return std::min(chunk_, bytes_ - offset_of(chunk)); }

    // The first failure is the one that is reported.
    void fail(std::string why) {
        if (failure_.empty())
            failure_ = std::move(why);
    }
    bool failed() const { return !failure_.empty(); }
    bool given_up() const { return given_up_; }
    void finish() { end(std::move(failure_)); }

    // Checks MPI's code for a message. After an error no further message is sure to arrive.
    bool check(int code, const char* what) {
        if (code == MPI_SUCCESS)
            return true;
        give_up(fmt::format("{} a chunk of the message failed: {}", what, error::text_of(code)));
        return false;
    }
    // Tests the oldest message under way: a chunk. Returns true when it is over, with success or without.
    bool test_oldest(bool receives) {
        if (!test_oldest(messages_, receives, length_of(ended_)))
            return false;
        ++ended_;
        return true;
    }
    // The same for a message of `expected` bytes. Over libfabric Open MPI 4.1 says success of a receive whose sender
    // has died, and of 0 bytes.
    bool test_oldest(Messages& messages, bool receives, std::size_t expected) {
        bool done = false;
        std::size_t bytes = 0;
        if (!check(messages.test_oldest(done, bytes), receives ? "receiving" : "sending") || !done)
            return done;
        if (receives && !given_up() && bytes != expected)
            give_up(fmt::format("a chunk of {} bytes has come with {}: its sender has failed", expected, bytes));
        return true;
    }
    bool check_copy(device::Result result, const char* what) {
        if (result == 0)
            return true;
        fail(fmt::format("{}: {}", what, pack::Packer::describe(result)));
        return false;
    }

    const std::size_t bytes_, chunk_, chunks_;
    Messages messages_;

  private:
    std::string failure_;
    bool given_up_ = false;
    std::size_t ended_ = 0;  // messages
};

// One run of host memory: MPI works on it where it is.
class InPlace final : public Chunked {
  public:
    InPlace(bool sends, std::byte* data, std::size_t bytes, const Route& route)
        : Chunked(bytes, settings::values().p2p_chunk, route), sends_(sends), data_(data) {}

  private:
    const char* what() const { return sends_ ? "sending" : "receiving"; }

    bool advance() override {
        bool moved = false;
        if (failed() && !sends_ && !cancelled_) {
            messages_.cancel();
            cancelled_ = true;
        }
        while (!failed() && begun_ < chunks_ && !messages_.full()) {
            std::byte* data = data_ + offset_of(begun_);
            const std::size_t length = length_of(begun_);
            if (!check(sends_ ? messages_.send(data, length) : messages_.receive(data, length), what()))
                break;
            ++begun_;
            moved = true;
        }
        while (!messages_.empty()) {
            if (!test_oldest(!sends_))
                return moved;
            moved = true;
        }
        if (failed() || begun_ == chunks_)
            finish();
        return moved;
    }

    const bool sends_;
    std::byte* const data_;
    std::size_t begun_ = 0;
    bool cancelled_ = false;
};

// Chunks are copied between the program's memory and memory of the library's.
class Copied : public Chunked {
  protected:
    Copied(const pack::Payload& payload, std::size_t bytes, std::size_t chunk, const Route& route)
        : Chunked(bytes, chunk, route), packer_(std::in_place, payload, bytes) {}

    // Returns true once copies may start.
    bool prepared(const char* what) {
        if (!prepared_ && !failed())
            check_copy(packer_->prepare(prepared_), what);
        return prepared_ && !failed();
    }

    void start_copy(pack::Direction direction, std::size_t chunk, std::byte* buffer, const char* what) {
        copying_ = true;
        check_copy(packer_->start(direction, offset_of(chunk), length_of(chunk), buffer), what);
    }

    // Returns true when the copy that was under way is over.
    bool copy_over(const char* what) {
        if (!copying_)
            return false;
        bool done = false;
        check_copy(packer_->query(done), what);
        copying_ = !done;
        return done;
    }
    bool copying() const { return copying_; }

    void end_copies() { packer_.reset(); }  // before the library's memory goes

  private:
    std::optional<pack::Packer> packer_;
    bool prepared_ = false;
    bool copying_ = false;
};

// The program's memory is on one side, MPI on the other, and between them are buffers that are used in rotation.
class Staged : public Copied {
  public:
    Staged(const pack::Payload& payload, std::size_t bytes, const Route& route)
        : Copied(payload, bytes, settings::values().p2p_chunk, route), context_(payload.where.context) {}

    ~Staged() override {
        if (!messages_.empty())  // MPI ends before the transfer is done
            messages_.leave(buffers_);
        end_copies();
    }

  protected:
    std::byte* buffer_of(std::size_t chunk) {
        return static_cast<std::byte*>(buffers_[chunk % Messages::kMost].data());
    }

    bool take_buffers() {
        const std::size_t wanted = std::min(chunks_, Messages::kMost);
        while (buffers_.size() < wanted) {
            device::Pinned buffer;
            if (device::Pinned::acquire(context_, std::min(chunk_, bytes_), buffer) != 0) {
                give_up("no host memory for the chunks of a staged message");
                return false;
            }
            buffers_.push_back(std::move(buffer));
        }
        return true;
    }

    // MPI may keep the buffers for a while; it does not touch the program's memory.
    void abandon() {
        messages_.leave(buffers_);
        finish();
    }

    std::vector<device::Pinned> buffers_;

  private:
    const device::Context context_;
};

// Each chunk is copied, then sent. While one is transferred the next ones are copied.
class Sender final : public Staged {
  public:
    using Staged::Staged;

  private:
    bool advance() override {
        bool moved = false;
        if (copy_over(kToHostFailed)) {
            moved = true;
            if (!failed() && check(messages_.send(buffer_of(sent_), length_of(sent_)), "sending"))
                ++sent_;
        }
        moved = test_sent() || moved;
        if (failed())
            return stop() || moved;
        if (sent_ == chunks_ && messages_.empty()) {
            finish();
            return true;
        }
        const bool ready = prepared(kToHostFailed) && !copying() && sent_ < chunks_ && !messages_.full();
        if (ready && take_buffers()) {
            start_copy(pack::Direction::kToHost, sent_, buffer_of(sent_), kToHostFailed);
            moved = true;
        }
        return moved;
    }

    bool test_sent() { return !messages_.empty() && test_oldest(false); }

    // The receiver takes what has been sent, unless the whole transfer is given up.
    bool stop() {
        if (copying() || (!messages_.empty() && !given_up()))
            return false;
        abandon();
        return true;
    }

    std::size_t sent_ = 0;  // chunks
};

// Receives are posted ahead; each chunk is copied when it has arrived. A failed copy does not keep the sender from
// sending: the rest is received and dropped, so that no message stays behind and the sender is free.
class Receiver final : public Staged {
  public:
    using Staged::Staged;

  private:
    bool advance() override {
        if (given_up())
            return stop();
        bool moved = post();
        moved = arrive() || moved;
        if (copy_over(kToDeviceFailed)) {
            ++copied_;
            moved = true;
        }
        const bool ready = prepared(kToDeviceFailed);
        if (!copying() && copied_ < arrived_) {
            if (failed()) {
                copied_ = arrived_;
                moved = true;
            } else if (ready) {
                start_copy(pack::Direction::kToDevice, copied_, buffer_of(copied_), kToDeviceFailed);
                moved = true;
            }
        }
        if (copied_ == chunks_)
            finish();
        return moved;
    }

    bool post() {
        bool moved = false;
        while (!given_up() && posted_ < chunks_ && posted_ - copied_ < Messages::kMost && take_buffers()) {
            if (!check(messages_.receive(buffer_of(posted_), length_of(posted_)), "receiving"))
                break;
            ++posted_;
            moved = true;
        }
        return moved;
    }

    bool arrive() {
        if (messages_.empty() || given_up() || !test_oldest(true))
            return false;
        if (!given_up())
            ++arrived_;
        return true;
    }

    bool stop() {
        copy_over(kToDeviceFailed);
        if (copying())
            return false;
        messages_.cancel();
        abandon();
        return true;
    }

    std::size_t posted_ = 0, arrived_ = 0, copied_ = 0;  // chunks
};

constexpr std::size_t kHalf = device::Mappable::kBytes / 2;
std::byte note;  // what the short messages consist of: nobody reads it

// The two halves of a block of the receiver's device memory take turns. A note from the sender says that a chunk has
// been written; one from the receiver that its half may be written again, where another chunk follows there.
class Mapped : public Copied {
  public:
    Mapped(const pack::Payload& payload, std::size_t bytes, const Route& route, std::byte* block)
        : Copied(payload, bytes, kHalf, route), freed_({route.comm, route.peer, route.answer_tag}), block_(block) {}
    ~Mapped() override {
        messages_.leave();
        freed_.leave();
    }

  protected:
    std::byte* half_of(std::size_t chunk) const { return block_ + chunk % 2 * kHalf; }
    std::size_t to_be_freed(std::size_t chunks) const { return std::min(chunks, chunks_ < 2 ? 0 : chunks_ - 2); }
    bool send_note(Messages& messages) { return check(messages.send(&note, sizeof note), "sending"); }
    bool receive_note(Messages& messages) { return check(messages.receive(&note, sizeof note), "receiving"); }
    bool note_over(Messages& messages, bool receives) {
        return !messages.empty() && test_oldest(messages, receives, sizeof note);
    }

    Messages freed_;

  private:
    std::byte* const block_;
};

class Writer final : public Mapped {
  public:
    using Mapped::Mapped;

  private:
    bool advance() override {
        bool moved = false;
        if (copy_over(kWriteFailed)) {
            moved = true;
            if (!failed() && send_note(messages_))
                ++sent_;
        }
        moved = note_over(messages_, false) || moved;
        moved = hear_of_freed() || moved;
        if (copying())
            return moved;
        if (failed() ? given_up() || all_freed() : sent_ == chunks_ && messages_.empty()) {
            freed_.cancel();
            finish();
            return true;
        }
        if (prepared(kWriteFailed) && sent_ < chunks_ && sent_ < freed_chunks_ + 2 && !messages_.full()) {
            start_copy(pack::Direction::kToHost, sent_, half_of(sent_), kWriteFailed);
            moved = true;
        }
        return moved;
    }

    bool hear_of_freed() {
        if (given_up())
            return false;
        if (freed_.empty() && freed_chunks_ < to_be_freed(sent_) && !receive_note(freed_))
            return true;
        if (!note_over(freed_, true))
            return false;
        if (!given_up())
            ++freed_chunks_;
        return true;
    }

    // After a failure the receiver goes on until it is told, and no note of its is left behind.
    bool all_freed() const { return messages_.empty() && freed_chunks_ == to_be_freed(sent_); }

    std::size_t sent_ = 0, freed_chunks_ = 0;
};

// A failed copy does not keep the sender from writing, as in Receiver.
class Reader final : public Mapped {
  public:
    Reader(const pack::Payload& payload, std::size_t bytes, const Route& route, device::Mappable block)
        : Mapped(payload, bytes, route, block.data()), block_(std::move(block)) {}
    // The sender may still write where it has not come to the end.
    ~Reader() override {
        end_copies();
        if (copied_ < chunks_)
            progress::keep_for_ever(std::move(block_));
    }

  private:
    bool advance() override {
        bool moved = copy_over(kReadFailed);
        if (moved)
            free_half();
        moved = note_over(freed_, false) || moved;
        if (given_up()) {
            if (!copying()) {
                messages_.cancel();
                finish();
            }
            return moved;
        }
        while (posted_ < chunks_ && posted_ - copied_ < 2 && receive_note(messages_))
            ++posted_;
        if (note_over(messages_, true) && !given_up()) {
            ++arrived_;
            moved = true;
        }
        if (!copying() && copied_ < arrived_ && !freed_.full()) {
            const bool starts = prepared(kReadFailed);
            if (starts)
                start_copy(pack::Direction::kToDevice, copied_, half_of(copied_), kReadFailed);
            else if (failed())
                free_half();
            moved |= starts || failed();
        }
        if (copied_ == chunks_ && freed_.empty()) {
            block_ = {};  // others can have it before the program asks for this message
            finish();
        }
        return moved;
    }

    void free_half() {
        if (copied_ < to_be_freed(chunks_) && !given_up())
            send_note(freed_);
        ++copied_;
    }

    device::Mappable block_;
    std::size_t posted_ = 0, arrived_ = 0, copied_ = 0;  // chunks
};

}  // namespace

std::unique_ptr<Transfer> write_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route,
                                       std::byte* block) {
    return std::make_unique<Writer>(payload, bytes, route, block);
}

std::unique_ptr<Transfer> read_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route,
                                      device::Mappable block) {
    return std::make_unique<Reader>(payload, bytes, route, std::move(block));
}

std::unique_ptr<Transfer> send_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route) {
    if (payload.contiguous && !payload.device)
        return std::make_unique<InPlace>(true, payload.data, bytes, route);
    return std::make_unique<Sender>(payload, bytes, route);
}

std::unique_ptr<Transfer> receive_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route) {
    if (payload.contiguous && !payload.device)
        return std::make_unique<InPlace>(false, payload.data, bytes, route);
    return std::make_unique<Receiver>(payload, bytes, route);
}

}  // namespace swy::staging
