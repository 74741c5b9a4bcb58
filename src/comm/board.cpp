#include "comm/board.hpp"

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

constexpr const char* kName = "switchyard-board";
constexpr std::size_t kLine = 128;  // two cache lines, which processors fetch together

// How the others find what the first rank has made: a file without a name, by way of its process. The secret tells
// whether they have; another host or container has other processes.
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

// What is at the address may be anything of another process's, which must not even be opened.
int open_at(const Address& address) {
    const std::string path = "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.file);
    char target[64] = {};
    if (readlink(path.c_str(), target, sizeof target - 1) < 0 ||
        std::string(target).rfind(std::string("/memfd:") + kName, 0) != 0)
        return -1;
    return open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

// A rank keeps its words of the last kKept exchanges, for those who are behind. How far it is it says every kSteps
// exchanges: to write what others read is what an exchange costs.
constexpr std::uint64_t kKept = 32;
constexpr std::uint64_t kSteps = 8;

struct Board::Slot {
    struct alignas(kLine) {
        std::atomic<std::uint64_t> exchange;  // whose words they are, counted from 1
        Words words;
    } kept[kKept];
    struct alignas(kLine) {
        std::atomic<std::uint64_t> exchange;  // one that has been told, less than kSteps ago
        std::atomic<std::uint64_t> begun;     // Begun in one word: its end above its what
    } last;
};

struct Board::Page {
    struct alignas(kLine) {
        std::uint64_t secret[2];
        std::atomic<std::uint32_t> closed;
    } head;
    Slot slots[1];  // one for each rank
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "is shared by processes");

Board::Slot& Board::slot(int rank) const {
    return page_->slots[rank];
}

std::size_t Board::bytes_for(int size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t needed = sizeof(Page) + sizeof(Slot) * static_cast<std::size_t>(size - 1);
    return (needed + page - 1) / page * page;
}

std::unique_ptr<Board> Board::map(int file, int rank, int size) {
    if (file < 0)
        return nullptr;
    const std::size_t bytes = bytes_for(size);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    auto* board = new (std::nothrow) Board(static_cast<Page*>(memory), bytes, rank, size);
    if (board == nullptr)
        munmap(memory, bytes);
    return std::unique_ptr<Board>(board);
}

Board::~Board() {
    munmap(page_, bytes_);
}

int Board::make(State& state) {
    Address address;
    std::unique_ptr<Board> board;
    File made(state.rank == 0 ? memfd_create(kName, MFD_CLOEXEC) : -1);
    if (state.rank == 0 && made.number() >= 0 &&
        ftruncate(made.number(), static_cast<off_t>(bytes_for(state.size))) == 0)
        board = map(made.number(), 0, state.size);
    if (board != nullptr) {
        std::random_device draw;
        for (std::uint64_t& word : address.secret)
            word = (std::uint64_t{draw()} << 32) | draw();
        std::copy(std::begin(address.secret), std::end(address.secret), board->page_->head.secret);
        address.process = getpid();
        address.file = made.number();
    }
    if (const int rc = real::Bcast(&address, sizeof address, MPI_BYTE, 0, state.handle); rc != MPI_SUCCESS)
        return rc;
    if (state.rank != 0 && address.file >= 0) {
        const File opened(open_at(address));
        board = map(opened.number(), state.rank, state.size);
        if (board != nullptr && std::memcmp(board->page_->head.secret, address.secret, sizeof address.secret) != 0)
            board.reset();
    }
    int mine = board != nullptr ? 1 : 0;
    int all = 0;
    const int rc = real::Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, state.handle);
    if (rc == MPI_SUCCESS && all == 1)
        state.board = std::move(board);
    return rc;
}

Board::Outcome Board::wait_until_near(std::uint64_t exchange, const request::Deadline& deadline) {
    for (;;) {
        std::uint64_t least = exchange;
        for (int rank = 0; rank < size_; ++rank)
            if (rank != rank_)
                least = std::min(least, slot(rank).last.exchange.load(std::memory_order_acquire));
        all_told_ = least;
        if (all_told_ + kKept > exchange)
            return Outcome::kDone;
        if (closed())
            return Outcome::kClosed;
        if (deadline.passed())
            return Outcome::kTooLate;
        request::progress();
    }
}

Board::Outcome Board::tell(const Words& words, const request::Deadline& deadline) {
    if (closed())
        return Outcome::kClosed;
    const std::uint64_t exchange = exchange_ + 1;
    // What is overwritten was told kKept exchanges ago. Who has told one after that has read it.
    if (all_told_ + kKept <= exchange)
        if (const Outcome near = wait_until_near(exchange, deadline); near != Outcome::kDone)
            return near;
    exchange_ = exchange;
    auto& kept = slot(rank_).kept[exchange % kKept];
    kept.words = words;
    kept.exchange.store(exchange, std::memory_order_release);
    if (exchange % kSteps == 0)
        slot(rank_).last.exchange.store(exchange, std::memory_order_release);
    return Outcome::kDone;
}

const Board::Words* Board::heard(int rank) const {
    const auto& kept = slot(rank).kept[exchange_ % kKept];
    return kept.exchange.load(std::memory_order_acquire) >= exchange_ ? &kept.words : nullptr;
}

Board::Outcome Board::await(int rank, std::uint64_t number, const request::Deadline& deadline,
                            const Words*& words) const {
    constexpr int kSpins = 200;  // some microseconds, in which ranks that come together find each other
    for (int turn = 0;; ++turn) {
        // In this order: a rank tells its words before it begins a later call.
        const bool beyond = begun(rank).end > number;
        words = heard(rank);
        if (words != nullptr)
            return Outcome::kDone;
        if (beyond)
            return Outcome::kBegun;
        if (turn < kSpins) {
            pause();
            continue;
        }
        if (closed())
            return Outcome::kClosed;
        if (deadline.passed())
            return Outcome::kTooLate;
        request::progress();
    }
}

void Board::tell_begun(std::uint64_t number, std::uint16_t what) {
    slot(rank_).last.begun.store(((number + 1) << 16) | what, std::memory_order_release);
}

Board::Begun Board::begun(int rank) const {
    const std::uint64_t word = slot(rank).last.begun.load(std::memory_order_acquire);
    return {word >> 16, static_cast<std::uint16_t>(word & 0xffff)};
}

void Board::close() {
    page_->head.closed.store(1, std::memory_order_release);
}

bool Board::closed() const {
    return page_->head.closed.load(std::memory_order_acquire) != 0;
}

}  // namespace swy::comm
