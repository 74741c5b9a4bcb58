// One rank's part in a round: sends, receives, probes and completes in ways that it draws by itself, and compares what
// has arrived with arithmetic. Test programs only.
#pragma once

#include <mpi.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "graph.hpp"

namespace p2p_test {

inline constexpr int kSentinel = 4711;  // in status.MPI_ERROR: MPI_Wait and MPI_Recv leave it (MPI 4.0 section 3.2.5)

// A request of this rank's, until it is complete and after.
struct Open {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status{};
    int code = MPI_SUCCESS;
    bool done = false;
    bool persistent = false;
    bool soon = true;  // may be waited for before the round's end
    bool needs_status = true;
    bool may_fail = false;  // its receive's check says whether it does
    bool cut = false;       // it will
    std::string what;
    const char* by = "";  // the completion call
};

// One receive, and what it is to find.
struct Receive {
    const Message* message = nullptr;  // nothing: told by the status
    int time = 0;
    int source = 0, tag = 0;  // as asked for
    bool short_of_room = false;
    bool has_status = true;
    bool checked = false;
    std::unique_ptr<Buffer> buffer;
    Open* open = nullptr;  // for a receive by request
    MPI_Status status{};
    int code = MPI_SUCCESS;
    std::string how;
};

struct Sent {
    const Message* message;
    std::unique_ptr<Buffer> buffer;
    std::string how;
};

class Player {
  public:
    Player(Dice& own, const Gpus& gpus, const Stage& stage, const Graph& graph, unsigned seed, char* note);
    int play();  // the number of failures

  private:
    // player.cpp
    void walk();
    void exchange(const Message& out, const Message& in);
    void to_self(const Message& message);
    void maybe_nobody();
    void maybe_cancel();
    void fail(const std::string& what);
    void say(const std::string& what);  // what is being done, for one who finds the job hanging
    Open& open(std::string what);

    // sending.cpp
    void send(const Message& message, bool may_block);
    void start_all_sends();
    Sent& prepare(const Message& message);

    // receiving.cpp
    void receive(const Message& message);
    void post_upfront();
    void serve();
    void receive_now(Receive& receive, bool by_request);
    void start(Receive& receive);
    Receive& ask(const Message* message, int source, int tag, int room);
    const Message* next_from(int source, int tag, int& time);
    void check(Receive& receive);
    void check_status(const Receive& receive, const MPI_Status& status, int elements);

    // completing.cpp
    void complete(std::vector<Open*> some);
    void complete_all(bool soon_only);

    Dice& dice_;
    const Gpus& gpus_;
    const Stage& stage_;
    const Graph& graph_;
    unsigned seed_;
    char* note_;
    std::deque<Open> opens_;
    std::deque<Receive> receives_;
    std::deque<Sent> sent_;
    std::vector<int> taken_;  // of each message to this node: how many of its times have been matched
    int failures_ = 0;
};

inline constexpr std::size_t kNote = 400;

}  // namespace p2p_test
