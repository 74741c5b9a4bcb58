// A random set of messages between the processes of a communicator, drawn the same by all of them, and such that each
// way in which a rank may take its part ends and has one outcome. Test programs only.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "layout.hpp"

namespace p2p_test {

// A communicator, and its processes numbered as nodes: those of the first group, then those of the second, if any.
struct Stage {
    Stage(std::string as, MPI_Comm on, bool in_first_group);

    int rank_of(int node) const { return inter && node >= first ? node - first : node; }

    std::string name;
    MPI_Comm comm;
    bool inter = false;
    int first = 0, second = 0;  // sizes of the groups
    int me = 0;                 // node
    bool truncates = true;      // may receives be too short?
};

// How a node receives. All sends and receives of a round have places in one order; a rank that blocks, blocks for what
// is not behind its own place, so somebody always can go on.
enum class Style {
    kInOrder,  // each receive at its message's place
    kUpfront,  // all receives are posted before anything else; they may be wildcards
    kServer,   // all sends are started first; then takes whatever comes until it has all
};

struct Message {
    int from = 0, to = 0;  // nodes
    int tag = 0;
    bool only_tag = false;  // no other message to this node has it
    MPI_Datatype base = MPI_BYTE;
    int elements = 0;
    std::uint64_t seed = 0;
    int times = 1;          // the same message with other data, one after the other
    bool exchange = false;  // its sender receives the next message by the same call
    bool replace = false;   // and into the same buffer

    Bytes data(int time) const;
};
std::string describe(const Message& message);
const char* name_of(MPI_Datatype base);

struct Graph {
    Graph(Dice& common, const Stage& stage);

    std::vector<Message> messages;
    std::vector<Style> style;  // of each node
    bool plain = false;        // most of the data is what NCCL carries
    bool ready = false;        // upfront receives are known to be posted before anything is sent

  private:
    void draw_message(Dice& common, const Stage& stage);
    void draw_exchange(Dice& common);
    std::vector<MPI_Datatype> base_;  // of what a node receives that may take one message for another
};

inline constexpr int kAnyTagBelow = 100;  // tags from here on are those of one message alone
inline constexpr int kNobodysTag = 999;

}  // namespace p2p_test
