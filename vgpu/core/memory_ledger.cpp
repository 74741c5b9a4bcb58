#include "vgpu/core/memory_ledger.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgpu/core/settings.hpp"

namespace vgpu {
namespace {

constexpr std::size_t kSlots = 4096;

class FileLock {  // serialises the processes; the threads of one are serialised by the ledger's mutex
  public:
    explicit FileLock(int file) : file_(file) {
        while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {
        }
    }
    ~FileLock() { flock(file_, LOCK_UN); }
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

  private:
    int file_;
};

// A lock of the process (not of the open file), so that a forked child does not keep its parent's slot alive.
struct flock slot_lock(short type, std::size_t slot) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(slot);
    lock.l_len = 1;
    return lock;
}

// Whether no other process has the slot.
bool is_free(int file, std::size_t slot) {
    struct flock lock = slot_lock(F_WRLCK, slot);
    return fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

}  // namespace

struct MemoryLedger::Page {
    std::uint64_t used_slots;  // slots at and above were never taken
    std::uint64_t bytes[kSlots];
};

MemoryLedger::MemoryLedger(std::string device_name, std::size_t limit)
    : path_("/dev/shm/vgpu-" + std::to_string(getuid()) + "-" + std::move(device_name)), limit_(limit) {}

// Returns false when the file was removed between open and lock: its last user has just left.
bool MemoryLedger::open_once(const std::string& path) {
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file_ < 0) {
        failed_ = true;
        return false;
    }
    const FileLock guard(file_);
    struct stat by_file {};
    struct stat by_path {};
    if (fstat(file_, &by_file) != 0 || stat(path.c_str(), &by_path) != 0 || by_file.st_ino != by_path.st_ino)
        return false;
    if (by_file.st_size < static_cast<off_t>(sizeof(Page)) && ftruncate(file_, sizeof(Page)) != 0)
        failed_ = true;
    void* memory = failed_ ? MAP_FAILED : mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    failed_ = memory == MAP_FAILED;
    if (failed_)
        return false;
    page_ = static_cast<Page*>(memory);
    for (mine_ = 0; mine_ < kSlots; ++mine_) {
        struct flock lock = slot_lock(F_WRLCK, mine_);
        if (fcntl(file_, F_SETLK, &lock) == 0)
            break;
    }
    if (mine_ == kSlots) {
        failed_ = true;
        return false;
    }
    if (page_->used_slots <= mine_)
        page_->used_slots = mine_ + 1;
    page_->bytes[mine_] = 0;
    return true;
}

bool MemoryLedger::open() {
    while (page_ == nullptr && !failed_) {
        if (open_once(path_))
            return true;
        if (file_ >= 0)
            ::close(std::exchange(file_, -1));
        if (failed_)
            say("cannot open " + path_ + " (" + std::strerror(errno) +
                "): the limit of device memory holds for this process alone");
    }
    return !failed_;
}

std::uint64_t MemoryLedger::sum(bool drop_the_dead) {
    std::uint64_t total = 0;
    for (std::size_t slot = 0; slot < page_->used_slots; ++slot) {
        if (drop_the_dead && slot != mine_ && page_->bytes[slot] != 0 && is_free(file_, slot))
            page_->bytes[slot] = 0;
        total += page_->bytes[slot];
    }
    return total;
}

bool MemoryLedger::charge(std::size_t bytes) {
    const std::lock_guard guard(lock_);
    if (bytes > limit_)
        return false;
    if (!open()) {
        if (local_ + bytes > limit_)
            return false;
        local_ += bytes;
        return true;
    }
    const FileLock file_guard(file_);
    if (sum(false) + bytes > limit_ && sum(true) + bytes > limit_)
        return false;
    page_->bytes[mine_] += bytes;
    return true;
}

void MemoryLedger::release(std::size_t bytes) {
    const std::lock_guard guard(lock_);
    if (!open()) {
        local_ -= bytes;
        return;
    }
    const FileLock file_guard(file_);
    page_->bytes[mine_] -= bytes;
}

// Reads the file without a slot in it. Only while this process has none: to close the file would give up the slot's
// lock.
std::uint64_t MemoryLedger::sum_of_others() const {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return 0;
    std::uint64_t total = 0;
    struct stat about {};
    if (fstat(file, &about) == 0 && about.st_size >= static_cast<off_t>(sizeof(Page))) {
        void* const memory = mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED) {
            const FileLock guard(file);
            const auto* const page = static_cast<const Page*>(memory);
            for (std::size_t slot = 0; slot < page->used_slots; ++slot)
                if (page->bytes[slot] != 0 && !is_free(file, slot))
                    total += page->bytes[slot];
            munmap(memory, sizeof(Page));
        }
    }
    ::close(file);
    return total;
}

std::size_t MemoryLedger::used() {
    const std::lock_guard guard(lock_);
    if (failed_)
        return local_;
    if (page_ == nullptr)
        return sum_of_others();
    const FileLock file_guard(file_);
    return sum(true);
}

void MemoryLedger::close() {
    const std::lock_guard guard(lock_);
    if (page_ == nullptr)
        return;
    {
        const FileLock file_guard(file_);
        page_->bytes[mine_] = 0;
        bool others = false;
        for (std::size_t slot = 0; slot < page_->used_slots && !others; ++slot)
            others = slot != mine_ && !is_free(file_, slot);
        if (!others)
            unlink(path_.c_str());
    }
    munmap(page_, sizeof(Page));
    page_ = nullptr;
    failed_ = true;
    ::close(std::exchange(file_, -1));
}

}  // namespace vgpu
