#include "p2p/bounce_buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "call/counted.hpp"
#include "real.hpp"
#include "request/message_layer.hpp"

namespace swy::p2p {
namespace {

constexpr std::size_t kPinnedLimit = std::size_t{256} << 10;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostKept = 64;
constexpr std::size_t kMostTouched = std::size_t{32} << 20;  // bytes of all kept mappings together

struct Pages {
    std::byte* data;
    std::size_t bytes;
    std::size_t touched;
};
// A mutex of its own: an operation may be destroyed by any thread, outside the engine's lock.
constinit std::mutex mutex;
std::vector<Pages>& kept() {
    static auto* all = new std::vector<Pages>;  // not destroyed at exit
    return *all;
}

constinit std::size_t kept_touched = 0;

// Takes the smallest kept mapping that is large enough and less than about twice as large, so that receives of about
// one size share.
std::optional<Pages> claim_kept(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    auto& all = kept();
    auto best = all.end();
    for (auto it = all.begin(); it != all.end(); ++it)
        if (it->bytes >= bytes && it->bytes / 2 <= bytes && (best == all.end() || it->bytes <= best->bytes))
            best = it;
    if (best == all.end())
        return std::nullopt;
    const Pages pages = *best;
    all.erase(best);
    kept_touched -= pages.touched;
    return pages;
}

void unmap_kept() {
    const std::scoped_lock lock(mutex);
    for (const Pages& pages : kept())
        munmap(pages.data, pages.bytes);
    kept().clear();
    kept_touched = 0;
}

std::byte* map(std::size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages != MAP_FAILED ? static_cast<std::byte*>(pages) : nullptr;
}

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

// Tells whether MPI may write beyond the receive's memory. Open MPI's own transports ("ob1") of 4.1.4 and 5.0.11 write
// a large message that is too long for its receive up to the end of the message, beyond the receive's memory, wherever
// the transport writes there itself (TCP, shared memory with single copy); not where MPI unpacks a type with gaps. UCX
// ("ucx") and libfabric ("cm") stay inside. Where the layer cannot be found out, it counts as ob1.
bool writes_beyond() {
    const std::string& layer = request::message_layer();
    return layer != "ucx" && layer != "cm";
}

// Room behind the bytes of a type with a gap: for the gap, and for the byte behind it.
constexpr std::size_t kBehind = 16;

// Datatypes by the size of the memory that they describe. A pending message keeps its type, so all of them may be freed
// at any time.
constexpr std::size_t kMostTypes = 256;
std::map<std::size_t, MPI_Datatype>& types() {
    static auto* all = new std::map<std::size_t, MPI_Datatype>;  // not destroyed at exit
    return *all;
}

void free_types() {
    for (auto& [size, type] : types())
        real::Type_free(&type);
    types().clear();
}

// Creates a type of all bytes of the memory but the last few; behind them are a gap and one more byte.
int make_type(std::size_t size, MPI_Datatype& type) {
    const call::Counted bytes(static_cast<MPI_Count>(size - kBehind), MPI_BYTE);
    const int lengths[] = {bytes.count(), 1};
    const MPI_Aint at[] = {0, static_cast<MPI_Aint>(size - 1)};
    const MPI_Datatype parts[] = {bytes.type(), MPI_BYTE};
    const int rc = real::Type_create_struct(writes_beyond() ? 2 : 1, lengths, at, parts, &type);
    return rc != MPI_SUCCESS ? rc : real::Type_commit(&type);
}

int type_of(std::size_t size, MPI_Datatype& type) {
    if (const auto made = types().find(size); made != types().end()) {
        type = made->second;
        return MPI_SUCCESS;
    }
    if (types().size() >= kMostTypes)
        free_types();
    const int rc = make_type(size, type);
    if (rc == MPI_SUCCESS)
        types()[size] = type;
    return rc;
}

}  // namespace

BounceBuffer::BounceBuffer(BounceBuffer&& other) noexcept
    : pinned_(std::move(other.pinned_)),
      data_(std::exchange(other.data_, nullptr)),
      pages_(std::exchange(other.pages_, 0)),
      touched_(other.touched_) {}

int BounceBuffer::acquire_to_receive(device::Context context, std::size_t bytes, MPI_Datatype& type) {
    const std::size_t needed = bytes + kBehind;
    const std::size_t size = needed < kPage ? std::bit_ceil(needed) : whole_pages(needed);
    return acquire(context, size) ? type_of(size, type) : MPI_ERR_NO_MEM;
}

bool BounceBuffer::acquire(device::Context context, std::size_t bytes) {
    if (bytes <= kPinnedLimit && context != nullptr && device::Pinned::acquire(context, bytes, pinned_) == 0) {
        data_ = static_cast<std::byte*>(pinned_.data());
        return true;
    }
    std::size_t size = whole_pages(std::max(bytes, kPage));
    if (const auto again = claim_kept(size)) {
        data_ = again->data;
        size = again->bytes;
        touched_ = again->touched;
    } else if (data_ = map(size); data_ == nullptr) {
        unmap_kept();
        if (data_ = map(size); data_ == nullptr)
            return false;
    }
    pages_ = size;
    return true;
}

BounceBuffer::~BounceBuffer() {
    if (pages_ == 0)
        return;
    const std::scoped_lock lock(mutex);
    if (kept().size() >= kMostKept) {  // drops the oldest, whose size may not be wanted any more
        munmap(kept().front().data, kept().front().bytes);
        kept_touched -= kept().front().touched;
        kept().erase(kept().begin());
    }
    if (touched_ > kPage && kept_touched + touched_ > kMostTouched) {
        madvise(data_, pages_, MADV_DONTNEED);
        touched_ = 0;
    }
    kept_touched += touched_;
    kept().push_back({data_, pages_, touched_});
}

void BounceBuffer::release_kept() {
    unmap_kept();
    free_types();
}

}  // namespace swy::p2p
