// Exchanges among all ranks of a communicator by messages on the job's private communicator (job_messages.hpp), for
// operations that have no private communicator of these ranks and must not wait for one. The ranks have told each other
// beforehand which tag each has drawn for the operation; with these tags, exchanges follow each other in the same order
// on all ranks. None blocks. Under the engine's lock.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/state.hpp"

namespace swy::comm {

class Exchange {
  public:
    static bool possible(const State& state);  // the same on all ranks
    static int draw_tag();                     // no other operation of this process has it

    // `tags` are those that the ranks have drawn, by rank.
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
    // As MPI_Iallgatherv of bytes.
    int begin_gather(const void* mine, std::size_t bytes, const std::vector<std::size_t>& all_bytes, void* all);
    // The two halves of an exchange in which each rank sends to all whenever it likes, at most `bytes_each` bytes.
    int receive_from_all(void* all, std::size_t bytes_each);
    int send_to_all(const void* mine, std::size_t bytes);

    // Is every started message complete? Calls MPI_Testsome. `code` is MPI's.
    bool done(int& code);

    // Does MPI still work on the memory that it was given? Then that memory must stay for ever when this object goes:
    // nobody tests the requests again.
    void keep(const std::shared_ptr<void>& memory);  // until no message that is under way uses it

    // The launch token that this rank gets from the one before it, in the order of MPI_COMM_WORLD, and passes on to the
    // next: as LaunchOrder's (launch_order.hpp).
    bool arrived();
    void pass_on();
    void give_up();

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(world_.size()); }

  private:
    int send(const void* data, int count, MPI_Datatype type, int to);
    int receive(void* data, int count, MPI_Datatype type, int from);

    const int rank_;
    std::vector<int> world_;
    const std::vector<int> tags_;
    int before_ = -1, after_ = -1;  // ranks; -1: none
    std::vector<MPI_Request> pending_;
    bool arrived_ = false;
    MPI_Request word_ = MPI_REQUEST_NULL;
};

}  // namespace swy::comm
