// Memory that the ranks of a communicator share when all are on one host, for what they tell each other before a
// blocking collective: each rank writes its own records and may read the others'. A reduction by MPI takes as long as a
// collective of a few KiB; this takes a fraction of a microsecond, and a rank that needs no answer does not wait for
// one.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace swy::comm {

struct State;

class SharedPage {
  public:
    static constexpr int kMostRanks = 32;        // a rank that waits reads the records of all
    static constexpr std::uint64_t kWorth = 4;   // agreements by MPI before a communicator gets a shared page
    using Record = std::array<std::int64_t, 5>;  // fits into one cache line with its number

    // Sets state.page on all ranks or on none. Collective over the communicator, by all ranks in one blocking call.
    // Returns MPI's code.
    static int make(State& state);
    ~SharedPage();
    SharedPage(const SharedPage&) = delete;
    SharedPage& operator=(const SharedPage&) = delete;

    // A page of so many ranks is a file of bytes_for() bytes, all 0 at first, that each rank maps: null where it
    // cannot.
    static std::size_t bytes_for(int size);
    static std::unique_ptr<SharedPage> map(int file, int rank, int size);

    enum class Outcome : std::uint8_t {
        kDone,
        kBehind,  // a rank is many exchanges behind, and the record would overwrite one that it has not read
        kClosed,  // by some rank
    };

    // Publishes this rank's next record: its n-th is an exchange with the n-th of the others. Does not wait; after
    // kBehind the caller tries again.
    Outcome publish(const Record& words);
    // Returns another rank's record in the exchange of the last publish(); null while that rank has not published it.
    // Valid until the next publish().
    const Record* peek(int rank) const;

    // A non-blocking call takes no part in exchanges. This publishes that this rank's last one is `number`, of the kind
    // `what`. A rank publishes its records before it starts a later call.
    void publish_nonblocking(std::uint64_t number, std::uint16_t what);
    struct Nonblocking {
        std::uint64_t end = 0;  // one more than its number; 0: none
        std::uint16_t what = 0;
    };
    Nonblocking nonblocking(int rank) const;

    // Ends all exchanges from now on: the ranks' calls do not match, so exchanges would not either.
    void close();
    bool closed() const;

  private:
    struct Slot;
    struct Page;
    SharedPage(Page* page, std::size_t bytes, int rank, int size)
        : page_(page), bytes_(bytes), rank_(rank), size_(size) {}
    Slot& slot(int rank) const;
    bool all_are_near(std::uint64_t exchange);

    Page* page_;
    std::size_t bytes_;
    int rank_, size_;
    std::uint64_t exchange_ = 0;  // the last one for which this rank has published a record
    std::uint64_t all_told_ = 0;  // up to here all ranks had published theirs when last looked at
};

}  // namespace swy::comm
