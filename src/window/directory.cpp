#include "window/directory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "real.hpp"

namespace swy::window {
namespace {

constexpr int kWord = sizeof(std::uint64_t), kWords = sizeof(Region) / sizeof(std::uint64_t);

// Makes a window of zeros.
int make(std::size_t words, MPI_Comm comm, std::uint64_t*& memory, MPI_Win& win) {
    const auto bytes = static_cast<MPI_Aint>(words * kWord);
    if (const int code = real::Win_allocate(bytes, kWord, MPI_INFO_NULL, comm, static_cast<void*>(&memory), &win);
        code != MPI_SUCCESS)
        return code;
    std::fill_n(memory, words, 0);
    return real::Win_set_errhandler(win, MPI_ERRORS_RETURN);
}

// The first code of several that is no success.
template <typename... Codes>
int first_error(Codes... codes) {
    int first = MPI_SUCCESS;
    ((first = first != MPI_SUCCESS ? first : codes), ...);
    return first;
}

}  // namespace

// All ranks hold a shared lock of all changes as long as the window lives: nobody ever waits for one.
int Directory::open(MPI_Comm comm) {
    real::Comm_rank(comm, &rank_);
    real::Comm_size(comm, &size_);
    if (const int code = make(1 + kMostRegions * kWords, comm, table_, tables_); code != MPI_SUCCESS)
        return code;
    if (const int code = make(static_cast<std::size_t>(size_), comm, change_, changes_); code != MPI_SUCCESS)
        return code;
    const int locked = real::Win_lock_all(MPI_MODE_NOCHECK, changes_);
    const int seen = locked == MPI_SUCCESS ? real::Win_sync(changes_) : locked;
    return first_error(seen, real::Barrier(comm));
}

int Directory::close() {
    const int unlocked = real::Win_unlock_all(changes_);
    const int changes = real::Win_free(&changes_);
    return first_error(unlocked, changes, real::Win_free(&tables_));
}

int Directory::add(const Region& region) {
    const std::scoped_lock lock(mutex_);
    if (own_.size() == kMostRegions)
        return MPI_ERR_RMA_ATTACH;
    own_.push_back(region);
    const int code = tell();
    if (code != MPI_SUCCESS)
        own_.pop_back();
    return code;
}

int Directory::remove(std::uint64_t base) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(own_, [base](const Region& region) { return region.base == base; });
    return tell();
}

int Directory::tell() {
    if (const int code = real::Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, tables_); code != MPI_SUCCESS)
        return code;
    table_[0] = own_.size();
    std::memcpy(table_ + 1, own_.data(), own_.size() * sizeof(Region));
    int code = real::Win_unlock(rank_, tables_);
    const std::uint64_t one = 1;
    for (int r = 0; r < size_ && code == MPI_SUCCESS; ++r)
        code = real::Accumulate(&one, 1, MPI_UINT64_T, r, rank_, 1, MPI_UINT64_T, MPI_SUM, changes_);
    return first_error(code, real::Win_flush_all(changes_));
}

std::uint64_t Directory::changes_of(int target) const {
    real::Win_sync(changes_);
    return std::atomic_ref<std::uint64_t>(change_[target]).load(std::memory_order_acquire);
}

int Directory::find(int target, std::shared_ptr<const Regions>& regions) {
    regions = nullptr;
    if (changes_of(target) == 0)
        return MPI_SUCCESS;
    const std::scoped_lock lock(mutex_);
    // The table that is read may be newer than the number: then it is read once more than it need be.
    const std::uint64_t change = changes_of(target);
    Known& known = known_[target];
    if (known.change != change) {
        Regions read_now;
        if (const int code = read(target, read_now); code != MPI_SUCCESS)
            return code;
        known = {change, read_now.empty() ? nullptr : std::make_shared<const Regions>(std::move(read_now))};
    }
    regions = known.regions;
    return MPI_SUCCESS;
}

int Directory::read(int target, Regions& regions) {
    if (const int code = real::Win_lock(MPI_LOCK_SHARED, target, 0, tables_); code != MPI_SUCCESS)
        return code;
    std::uint64_t count = 0;
    int code = real::Get(&count, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T, tables_);
    code = first_error(code, real::Win_flush(target, tables_));
    if (code == MPI_SUCCESS && count > 0) {
        regions.resize(std::min<std::size_t>(count, kMostRegions));
        const int words = static_cast<int>(regions.size()) * kWords;
        code = real::Get(regions.data(), words, MPI_UINT64_T, target, 1, words, MPI_UINT64_T, tables_);
    }
    return first_error(code, real::Win_unlock(target, tables_));
}

}  // namespace swy::window
