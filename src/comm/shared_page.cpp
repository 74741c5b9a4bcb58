#include "comm/shared_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>
#include <string>

#include "comm/state.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

constexpr const char* kName = "switchyard-page";
constexpr std::size_t kLine = 128;  // two cache lines, which processors fetch together

// How the other ranks find what the first rank has made: a file without a name, by way of its process. The secret tells
// whether they have found it; another host or container has other processes.
struct Address {
    std::int64_t process = 0;
    std::int64_t file = -1;  // -1: the first rank has made none
    std::uint64_t secret[2]{};
};

class File {
  public:
    explicit File(int number = -1) : number_(number) {}
    ~File() {
        if (number_ >= 0)
            ::close(number_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    int number() const { return number_; }

  private:
    int number_;
};

// What is at the address may be any file of another process, which must not even be opened.
int open_at(const Address& address) {
    const std::string path = "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.file);
    char target[64] = {};
    if (readlink(path.c_str(), target, sizeof target - 1) < 0 ||
        std::string(target).rfind(std::string("/memfd:") + kName, 0) != 0)
        return -1;
    return open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace

// A rank keeps its records of the last kKept exchanges, for ranks that are behind. It publishes how far it is only
// every kSteps exchanges: to write what others read is what an exchange costs.
constexpr std::uint64_t kKept = 32;
constexpr std::uint64_t kSteps = 8;

struct SharedPage::Slot {
    struct alignas(kLine) {
        std::atomic<std::uint64_t> exchange;  // of the record, counted from 1
        Record words;
    } kept[kKept];
    struct alignas(kLine) {
        std::atomic<std::uint64_t> exchange;  // one that this rank has published, less than kSteps ago
        std::atomic<std::uint64_t> begun;     // a Nonblocking in 64 bits: `end` above the 16 bits of `what`
    } last;
};

struct SharedPage::Page {
    struct alignas(kLine) {
        std::uint64_t secret[2];
        std::atomic<std::uint32_t> closed;
    } head;
    Slot slots[1];  // one for each rank
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "is shared by processes");

SharedPage::Slot& SharedPage::slot(int rank) const {
    return page_->slots[rank];
}

std::size_t SharedPage::bytes_for(int size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t needed = sizeof(Page) + sizeof(Slot) * static_cast<std::size_t>(size - 1);
    return (needed + page - 1) / page * page;
}

std::unique_ptr<SharedPage> SharedPage::map(int file, int rank, int size) {
    if (file < 0)
        return nullptr;
    const std::size_t bytes = bytes_for(size);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    auto* page = new (std::nothrow) SharedPage(static_cast<Page*>(memory), bytes, rank, size);
    if (page == nullptr)
        munmap(memory, bytes);
    return std::unique_ptr<SharedPage>(page);
}

SharedPage::~SharedPage() {
    munmap(page_, bytes_);
}

int SharedPage::make(State& state) {
    Address address;
    std::unique_ptr<SharedPage> page;
    File made(state.rank == 0 ? memfd_create(kName, MFD_CLOEXEC) : -1);
    if (state.rank == 0 && made.number() >= 0 &&
        ftruncate(made.number(), static_cast<off_t>(bytes_for(state.size))) == 0)
        page = map(made.number(), 0, state.size);
    if (page != nullptr) {
        std::random_device draw;
        for (std::uint64_t& word : address.secret)
            word = (std::uint64_t{draw()} << 32) | draw();
        std::copy(std::begin(address.secret), std::end(address.secret), page->page_->head.secret);
        address.process = getpid();
        address.file = made.number();
    }
    if (const int rc = real::Bcast(&address, sizeof address, MPI_BYTE, 0, state.handle); rc != MPI_SUCCESS)
        return rc;
    if (state.rank != 0 && address.file >= 0) {
        const File opened(open_at(address));
        page = map(opened.number(), state.rank, state.size);
        if (page != nullptr && std::memcmp(page->page_->head.secret, address.secret, sizeof address.secret) != 0)
            page.reset();
    }
    int mine = page != nullptr ? 1 : 0;
    int all = 0;
    const int rc = real::Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, state.handle);
    if (rc == MPI_SUCCESS && all == 1)
        state.page = std::move(page);
    return rc;
}

bool SharedPage::all_are_near(std::uint64_t exchange) {
    std::uint64_t least = exchange;
    for (int rank = 0; rank < size_; ++rank)
        if (rank != rank_)
            least = std::min(least, slot(rank).last.exchange.load(std::memory_order_acquire));
    all_told_ = least;
    return all_told_ + kKept > exchange;
}

SharedPage::Outcome SharedPage::publish(const Record& words) {
    if (closed())
        return Outcome::kClosed;
    const std::uint64_t exchange = exchange_ + 1;
    // The record that is overwritten was published kKept exchanges ago. A rank that has published a later one has read
    // it.
    if (all_told_ + kKept <= exchange && !all_are_near(exchange))
        return Outcome::kBehind;
    exchange_ = exchange;
    auto& kept = slot(rank_).kept[exchange % kKept];
    kept.words = words;
    kept.exchange.store(exchange, std::memory_order_release);
    if (exchange % kSteps == 0)
        slot(rank_).last.exchange.store(exchange, std::memory_order_release);
    return Outcome::kDone;
}

const SharedPage::Record* SharedPage::peek(int rank) const {
    const auto& kept = slot(rank).kept[exchange_ % kKept];
    return kept.exchange.load(std::memory_order_acquire) >= exchange_ ? &kept.words : nullptr;
}

void SharedPage::publish_nonblocking(std::uint64_t number, std::uint16_t what) {
    slot(rank_).last.begun.store(((number + 1) << 16) | what, std::memory_order_release);
}

SharedPage::Nonblocking SharedPage::nonblocking(int rank) const {
    const std::uint64_t word = slot(rank).last.begun.load(std::memory_order_acquire);
    return {word >> 16, static_cast<std::uint16_t>(word & 0xffff)};
}

void SharedPage::close() {
    page_->head.closed.store(1, std::memory_order_release);
}

bool SharedPage::closed() const {
    return page_->head.closed.load(std::memory_order_acquire) != 0;
}

}  // namespace swy::comm
