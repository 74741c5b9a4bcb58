// Exchanges among all ranks of a communicator by messages on the job's private communicator (control.hpp), for who has
// none of the same ranks and must not wait for one. The ranks have told each other beforehand which tag each has drawn
// for what they do together; with these, exchanges follow each other in the same order on all ranks. None blocks. Under
// the engine's lock.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "comm/state.hpp"

namespace swy::comm {

class Exchange {
  public:
    static bool possible(const State& state);  // the same on all ranks
    static int draw_tag();                     // no other undertaking of this process has it

    // `tags`: by rank, what each has drawn.
    Exchange(State& state, std::vector<int> tags);
    ~Exchange();
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    // As MPI_Ialltoallv with one type, but that all counts of what one rank sends another may be 0 without a message.
    // MPI's code.
    struct Blocks {
        void* address = nullptr;
        std::vector<int> counts, starts;  // by rank, in elements of the type
    };
    int begin(const Blocks& sent, const Blocks& received, MPI_Datatype type);
    // As MPI_Iallgatherv of bytes.
    int begin_gather(const void* mine, std::size_t bytes, const std::vector<std::size_t>& all_bytes, void* all);
    // The two halves of one in which each rank sends every other as many bytes as it likes to, when it likes to.
    int receive_from_all(void* all, std::size_t bytes_each);
    int send_to_all(const void* mine, std::size_t bytes);

    // Is what has been begun complete? Asks MPI. `code` is MPI's.
    bool done(int& code);

    // The word of the rank before this one, in the order of MPI_COMM_WORLD, that it has launched, and the own one to
    // the next: as Order's (order.hpp).
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
    int before_ = -1, after_ = -1;  // ranks
    std::vector<MPI_Request> pending_;
    bool arrived_ = false;
    MPI_Request word_ = MPI_REQUEST_NULL;
};

}  // namespace swy::comm
