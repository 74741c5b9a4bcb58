// Memory that the ranks of a communicator share when all are on one node, for what they tell each other before a
// blocking collective: each writes its own words and may read the others'. A reduction by MPI takes as long as a
// collective of a few KiB; this takes a fraction of a microsecond, and who needs no answer does not wait for one.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "request/wait.hpp"

namespace swy::comm {

struct State;

class Board {
  public:
    static constexpr int kMostRanks = 32;       // one that wants to know reads the words of all
    static constexpr std::uint64_t kWorth = 4;  // agreements by MPI before a communicator gets a board
    using Words = std::array<std::int64_t, 4>;  // with their number in one line of the cache

    // Collective over the communicator, by all ranks in one blocking call: state.board is set on all ranks or on none.
    // MPI's code.
    static int make(State& state);
    ~Board();
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    enum class Outcome : std::uint8_t {
        kDone,
        kBegun,    // the rank's call is one that does not block: begun()
        kClosed,   // by some rank
        kTooLate,  // the deadline has passed
    };

    // Each rank's next words: its n-th are an exchange with the n-th of the others. Waits, with MPI's progress, only
    // for a rank that is many exchanges behind, as any collective may.
    Outcome tell(const Words& words, const request::Deadline& deadline);
    // Another rank's words in the exchange of the last tell(); null while it has not told them. Valid to the next one.
    const Words* heard(int rank) const;
    // As heard(), waiting for them, with MPI's progress. `number` is that of the call among the communicator's calls.
    Outcome await(int rank, std::uint64_t number, const request::Deadline& deadline, const Words*& words) const;

    // A call that does not block takes no part in exchanges: this rank's last one is `number`, with a word of `what`.
    void tell_begun(std::uint64_t number, std::uint16_t what);
    struct Begun {
        std::uint64_t end = 0;  // one more than its number; 0: none
        std::uint16_t what = 0;
    };
    Begun begun(int rank) const;

    // The ranks' calls do not match, so exchanges would not either: all end from now on.
    void close();
    bool closed() const;

  private:
    struct Slot;
    struct Page;
    Board(Page* page, std::size_t bytes, int rank, int size) : page_(page), bytes_(bytes), rank_(rank), size_(size) {}
    static std::size_t bytes_for(int size);
    static std::unique_ptr<Board> map(int file, int rank, int size);
    Slot& slot(int rank) const;
    Outcome wait_until_near(std::uint64_t exchange, const request::Deadline& deadline);

    Page* page_;
    std::size_t bytes_;
    int rank_, size_;
    std::uint64_t exchange_ = 0;  // the last one that this rank has told
    std::uint64_t all_told_ = 0;  // up to here all ranks had told when last looked at
};

}  // namespace swy::comm
