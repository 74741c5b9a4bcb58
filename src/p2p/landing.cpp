#include "p2p/landing.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

namespace swy::p2p {
namespace {

constexpr std::size_t kPinnedLimit = std::size_t{256} << 10;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kKept = 64;

struct Pages {
    std::byte* data;
    std::size_t bytes;
};
// An operation may be given up by any thread, outside the engine's lock.
constinit std::mutex mutex;
std::vector<Pages>& kept() {
    static auto* all = new std::vector<Pages>;  // not destroyed at exit
    return *all;
}

std::byte* take_kept(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    auto& all = kept();
    const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Pages& pages) { return pages.bytes == bytes; });
    if (found == all.rend())
        return nullptr;
    std::byte* data = found->data;
    all.erase(std::next(found).base());
    return data;
}

}  // namespace

bool Landing::acquire(device::Context context, std::size_t bytes) {
    if (bytes <= kPinnedLimit && context != nullptr && device::Pinned::acquire(context, bytes, pinned_) == 0) {
        data_ = static_cast<std::byte*>(pinned_.data());
        return true;
    }
    // In powers of two, so that receives of about one size share.
    const std::size_t size = std::bit_ceil(std::max(bytes, kPage));
    data_ = take_kept(size);
    if (data_ == nullptr) {
        void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED)
            return false;
        data_ = static_cast<std::byte*>(pages);
    }
    pages_ = size;
    return true;
}

Landing::~Landing() {
    if (pages_ == 0)
        return;
    if (touched_ > kPage)
        madvise(data_, pages_, MADV_DONTNEED);
    const std::scoped_lock lock(mutex);
    if (kept().size() >= kKept) {
        munmap(data_, pages_);
        return;
    }
    kept().push_back({data_, pages_});
}

void Landing::release_kept() {
    const std::scoped_lock lock(mutex);
    for (const Pages& pages : kept())
        munmap(pages.data, pages.bytes);
    kept().clear();
}

}  // namespace swy::p2p
