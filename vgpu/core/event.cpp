#include "vgpu/core/event.hpp"

#include <ctime>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgpu/core/context.hpp"
#include "vgpu/core/log.hpp"

namespace vgpu {

void SharedRecords::wait(std::uint32_t number) {
    while (true) {
        const std::uint32_t seen = completed.load();
        if (static_cast<std::int32_t>(seen - number) >= 0)
            return;
        // The time-out is for a recording process that died between its store and its futex wake.
        const timespec limit{0, 50000000};
        syscall(SYS_futex, &completed, FUTEX_WAIT, seen, &limit, nullptr, 0);
    }
}

void SharedRecords::complete(std::uint32_t number) {
    std::uint32_t seen = completed.load();
    while (static_cast<std::int32_t>(number - seen) > 0 && !completed.compare_exchange_weak(seen, number)) {
    }
    syscall(SYS_futex, &completed, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

Event::~Event() {
    if (file_ >= 0)
        close(file_);
}

bool Event::map(int file) {
    file_ = file;
    void* memory = mmap(nullptr, sizeof(SharedRecords), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return false;
    shared_.reset(static_cast<SharedRecords*>(memory), [](SharedRecords* r) { munmap(r, sizeof *r); });
    return true;
}

bool Event::share() {
    const int file = memfd_create("vgpu-event", MFD_CLOEXEC);
    return file >= 0 && ftruncate(file, sizeof(SharedRecords)) == 0 && map(file);
}

bool Event::open_shared(int file) {
    return map(file);
}

void Event::record(Context& context, const std::shared_ptr<Stream>& stream, bool hang) {
    auto record = std::make_shared<Record>();
    const std::shared_ptr<SharedRecords> shared = shared_;
    const std::lock_guard guard(lock_);  // of two threads' records the one submitted later must be the last one
    const std::uint32_t number = shared == nullptr ? 0 : shared->recorded.fetch_add(1) + 1;
    // The operation must not own the record: the record owns the stream and so the operation.
    record->mark = context.submit(
        stream, Work::Empty,
        [weak = std::weak_ptr<Record>(record), shared, number] {
            if (const auto kept = weak.lock())
                kept->time.store(now());
            if (shared != nullptr)
                shared->complete(number);
        },
        {}, hang);
    last_ = std::move(record);
    captured_.reset();
}

void Event::record_captured(std::shared_ptr<const CapturedRecord> record) {
    const std::lock_guard guard(lock_);
    captured_ = std::move(record);
}

std::shared_ptr<const CapturedRecord> Event::captured() const {
    const std::lock_guard guard(lock_);
    return captured_;
}

std::shared_ptr<Record> Event::last() const {
    const std::lock_guard guard(lock_);
    return last_;
}

bool Event::done() const {
    if (shared_ != nullptr)
        return shared_->done(shared_->recorded.load());
    const auto record = last();
    return record == nullptr || record->done();
}

void Event::wait() const {
    if (shared_ != nullptr)
        return shared_->wait(shared_->recorded.load());
    if (const auto record = last(); record != nullptr)
        record->mark.stream->wait(record->mark.ticket);
}

void Event::make_wait(Context& context, const std::shared_ptr<Stream>& stream, bool hang) const {
    if (shared_ != nullptr) {
        const std::uint32_t number = shared_->recorded.load();
        context.submit(
            stream, Work::SharedWait, [shared = shared_, number] { shared->wait(number); }, {}, hang);
        return;
    }
    std::vector<Mark> after;
    if (const auto record = last(); record != nullptr && record->mark.stream != stream)
        after.push_back(record->mark);
    if (!after.empty() || hang)
        context.submit(stream, Work::Wait, {}, std::move(after), hang);
}

}  // namespace vgpu
