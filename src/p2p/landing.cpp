#include "p2p/landing.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "p2p/counted.hpp"
#include "real.hpp"

namespace swy::p2p {
namespace {

constexpr std::size_t kPinnedLimit = std::size_t{256} << 10;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kKept = 64;
constexpr std::size_t kMostTouched = std::size_t{32} << 20;  // of all that are kept

struct Pages {
    std::byte* data;
    std::size_t bytes;
    std::size_t touched;
};
// An operation may be given up by any thread, outside the engine's lock.
constinit std::mutex mutex;
std::vector<Pages>& kept() {
    static auto* all = new std::vector<Pages>;  // not destroyed at exit
    return *all;
}

constinit std::size_t kept_touched = 0;

std::optional<Pages> take_kept(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    auto& all = kept();
    const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Pages& pages) { return pages.bytes == bytes; });
    if (found == all.rend())
        return std::nullopt;
    const Pages pages = *found;
    all.erase(std::next(found).base());
    kept_touched -= pages.touched;
    return pages;
}

// Open MPI's own messages ("ob1") of 4.1.4 and 5.0.11 write a large message that is too long for its receive to the end
// of the message, beyond the receive's memory, wherever the transport writes there itself (TCP, shared memory with
// single copy); not where MPI unpacks a type with gaps. Those that UCX or libfabric carry ("ucx", "cm") stay inside.
// What carries them is the MPI's own affair; where it cannot be found out, it counts as ob1.
bool writes_beyond() {
    // struct mca_base_component_2_1_0_t: the framework's name and the component's.
    constexpr std::size_t kFramework = 40, kComponent = 84, kName = 64;
    const auto* component = static_cast<const char*>(dlsym(RTLD_DEFAULT, "mca_pml_base_selected_component"));
    if (component == nullptr || std::string_view(component + kFramework, 4) != std::string_view("pml", 4))
        return true;
    const std::string_view name(component + kComponent, strnlen(component + kComponent, kName));
    return name != "ucx" && name != "cm";
}

// Room behind the bytes of a type with a gap: the gap, and what is behind it.
constexpr std::size_t kBehind = 16;
constexpr std::size_t kSmallest = 64;

// By the memory's size, a power of two.
std::array<MPI_Datatype, sizeof(std::size_t) * CHAR_BIT>& types() {
    static auto* all = [] {
        auto* made = new std::array<MPI_Datatype, sizeof(std::size_t) * CHAR_BIT>;  // not destroyed at exit
        made->fill(MPI_DATATYPE_NULL);
        return made;
    }();
    return *all;
}

// The bytes of the memory but the last few; behind them a gap and one more.
int make_type(std::size_t size, MPI_Datatype& type) {
    const Counted bytes(static_cast<MPI_Count>(size - kBehind), MPI_BYTE);
    const int lengths[] = {bytes.count(), 1};
    const MPI_Aint at[] = {0, static_cast<MPI_Aint>(size - 1)};
    const MPI_Datatype parts[] = {bytes.type(), MPI_BYTE};
    const int rc = real::Type_create_struct(writes_beyond() ? 2 : 1, lengths, at, parts, &type);
    return rc != MPI_SUCCESS ? rc : real::Type_commit(&type);
}

struct Left {
    Landing memory;
    MPI_Request request;
};
// At exit MPI is gone, and what it still worked on stays.
std::list<Left>& left() {
    static auto* all = new std::list<Left>;  // not destroyed at exit
    return *all;
}

// Asked in the one way that raises no error inside MPI's progress.
bool is_over(Left& one) {
    int done = 0;
    const int rc = real::Request_get_status(one.request, &done, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && !done)
        return false;
    real::Request_free(&one.request);
    return true;
}

}  // namespace

Landing::Landing(Landing&& other) noexcept
    : pinned_(std::move(other.pinned_)),
      data_(std::exchange(other.data_, nullptr)),
      pages_(std::exchange(other.pages_, 0)),
      touched_(other.touched_) {}

void Landing::leave(Landing memory, MPI_Request request) {
    left().push_back({std::move(memory), request});
}

void Landing::collect_left() {
    left().remove_if(is_over);
}

int Landing::acquire_to_receive(device::Context context, std::size_t bytes, MPI_Datatype& type) {
    const std::size_t size = std::bit_ceil(std::max(bytes + kBehind, kSmallest));
    if (!acquire(context, size))
        return MPI_ERR_NO_MEM;
    MPI_Datatype& kept_type = types()[static_cast<std::size_t>(std::countr_zero(size))];
    if (kept_type == MPI_DATATYPE_NULL)
        if (const int rc = make_type(size, kept_type); rc != MPI_SUCCESS)
            return rc;
    type = kept_type;
    return MPI_SUCCESS;
}

bool Landing::acquire(device::Context context, std::size_t bytes) {
    if (bytes <= kPinnedLimit && context != nullptr && device::Pinned::acquire(context, bytes, pinned_) == 0) {
        data_ = static_cast<std::byte*>(pinned_.data());
        return true;
    }
    // In powers of two, so that receives of about one size share.
    const std::size_t size = std::bit_ceil(std::max(bytes, kPage));
    if (const auto again = take_kept(size)) {
        data_ = again->data;
        touched_ = again->touched;
    } else {
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
    const std::scoped_lock lock(mutex);
    if (kept().size() >= kKept) {
        munmap(data_, pages_);
        return;
    }
    if (touched_ > kPage && kept_touched + touched_ > kMostTouched) {
        madvise(data_, pages_, MADV_DONTNEED);
        touched_ = 0;
    }
    kept_touched += touched_;
    kept().push_back({data_, pages_, touched_});
}

void Landing::release_kept() {
    const std::scoped_lock lock(mutex);
    for (const Pages& pages : kept())
        munmap(pages.data, pages.bytes);
    kept().clear();
    kept_touched = 0;
    for (MPI_Datatype& type : types())
        if (type != MPI_DATATYPE_NULL)
            real::Type_free(&type);
}

}  // namespace swy::p2p
