// Exchanges among all ranks of a communicator by messages on the job's private communicator (job_messages.hpp), for
// operations that have no private communicator of these ranks and must not wait for one. The ranks have told each other
// beforehand which tag each has drawn for the operation, or all know one that only this operation has on each of them;
// with these tags, exchanges follow each other in the same order on all ranks. None blocks. Under the engine's lock.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/state.hpp"

namespace swy::comm {

class Exchange {
  public:
    static bool possible(const State& state);  // the same on all ranks
    static int draw_tag();                     // no other operation of this process has it
    static int tag_of(std::int64_t number);    // for the communicator of this number (launch_order.hpp)

    // `tags` are by rank: those of messages to it.
    Exchange(State& state, std::vector<int> tags);
    ~Exchange();
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    // As MPI_Ialltoallv with one type, except that a count of 0 sends no message. Returns MPI's code.
    struct Blocks {
        void* address = nullptr;
        std::vector<int> counts, starts;  // by rank, in elements of the type
    };
    int begin(const Blocks& sent, const Blocks& received, MPI_Datatype type);
    // A round: blocks of all ranks come to all ranks, up a binomial tree to rank 0 and down again, in two messages a
    // rank. `all` has a block of so many bytes for each rank, of which the own one is filled in, and then what rank 0
    // adds when all blocks have come to it, by `add`. done() drives it.
    int begin_round(std::vector<std::size_t> bytes, std::vector<std::byte>& all, std::function<void()> add = {});

    // Is what was started complete? Calls MPI_Testsome. `code` is MPI's.
    bool done(int& code);

    // Does MPI still work on the memory that it was given? Then that memory must stay for ever when this object goes:
    // nobody tests the requests again.
    void keep(const std::shared_ptr<void>& memory);  // until no message that is under way uses it

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(world_.size()); }
    const std::vector<int>& world() const { return world_; }  // the ranks as ranks of MPI_COMM_WORLD

  private:
    struct Round {
        enum class Phase : std::uint8_t { kNone, kUp, kSent, kDown, kLast } phase = Phase::kNone;
        std::byte* all = nullptr;
        std::size_t bytes = 0;
        std::vector<std::size_t> starts;  // of the ranks' blocks, and where the last one ends
        std::function<void()> add;
    };
    int span() const;  // of how many ranks, from this one on, the blocks come up by this rank
    int go_on();
    int send_down();
    bool messages_done(int& code);
    int send(const void* data, int count, MPI_Datatype type, int to);
    int receive(void* data, int count, MPI_Datatype type, int from);

    const int rank_;
    std::vector<int> world_;
    const std::vector<int> tags_;
    std::vector<MPI_Request> pending_;
    Round round_;
};

}  // namespace swy::comm
