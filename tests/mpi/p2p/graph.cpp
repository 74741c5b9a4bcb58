#include "graph.hpp"

#include <cstddef>
#include <iterator>
#include <utility>

namespace p2p_test {
namespace {

const MPI_Datatype kBases[] = {MPI_BYTE, MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_FLOAT, MPI_DOUBLE};
constexpr const char* kBaseNames[] = {"MPI_BYTE", "MPI_BYTE",  "MPI_CHAR",  "MPI_SHORT",
                                      "MPI_INT",  "MPI_FLOAT", "MPI_DOUBLE"};

// Around the length of an envelope (101), and around the thresholds and sizes of chunks of the launch lines.
constexpr int kSmall[] = {0, 1, 7, 64, 100, 101, 102, 1000, 1024};
constexpr int kMiddle[] = {4095, 4096, 4097, 5000, 8191, 8192, 8193, 16384, 20000, 40000};
constexpr int kLarge[] = {65535, 65536, 65537, 100000, 131072, 200000};
constexpr int kHuge[] = {524287, 524288, 524289, 1048576, 1600000, 3000001};

template <std::size_t N>
int draw_from(Dice& dice, const int (&values)[N]) {
    return values[dice.below(static_cast<int>(N))];
}

int draw_bytes(Dice& dice, bool may_be_huge) {
    const int which = dice.below(100);
    if (which < 35)
        return draw_from(dice, kSmall);
    if (which < 75)
        return draw_from(dice, kMiddle);
    if (which < 97 || !may_be_huge)
        return draw_from(dice, kLarge);
    return draw_from(dice, kHuge);
}

}  // namespace

const char* name_of(MPI_Datatype base) {
    for (std::size_t i = 0; i < std::size(kBases); ++i)
        if (kBases[i] == base)
            return kBaseNames[i];
    return "?";
}

Stage::Stage(std::string as, MPI_Comm on, bool in_first_group) : name(std::move(as)), comm(on) {
    int is_inter = 0, rank = 0, size = 0, remote = 0;
    MPI_Comm_test_inter(comm, &is_inter);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    inter = is_inter != 0;
    if (inter)
        MPI_Comm_remote_size(comm, &remote);
    first = in_first_group ? size : remote;
    second = in_first_group ? remote : size;
    me = in_first_group ? rank : first + rank;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

Bytes Message::data(int time) const {
    int size = 0;
    MPI_Type_size(base, &size);
    return noise(seed + static_cast<std::uint64_t>(time) * 77,
                 static_cast<std::size_t>(elements) * static_cast<std::size_t>(size));
}

std::string describe(const Message& message) {
    return std::to_string(message.elements) + " x " + name_of(message.base) + " from node " +
           std::to_string(message.from) + " to " + std::to_string(message.to) + " with tag " +
           std::to_string(message.tag) + (message.times > 1 ? ", " + std::to_string(message.times) + " times" : "");
}

Graph::Graph(Dice& common, const Stage& stage) {
    const int nodes = stage.first + (stage.inter ? stage.second : 0);
    for (int i = 0; i < nodes; ++i) {
        style.push_back(static_cast<Style>(common.below(3)));
        base_.push_back(kBases[common.below(static_cast<int>(std::size(kBases)))]);
    }
    plain = common.one_in(2);
    ready = common.one_in(2);
    const int wanted = common.one_in(4) ? 1 + common.below(40) : 1 + common.below(12);
    while (static_cast<int>(messages.size()) < wanted) {
        draw_message(common, stage);
        draw_exchange(common);
    }
}

void Graph::draw_message(Dice& common, const Stage& stage) {
    Message message;
    const auto node = [&](bool in_first) {
        return in_first ? common.below(stage.first) : stage.first + common.below(stage.second);
    };
    const bool forth = !stage.inter || common.one_in(2);
    message.from = node(forth);
    message.to = node(!stage.inter || !forth);
    message.only_tag = common.one_in(5);
    message.tag = message.only_tag ? kAnyTagBelow + static_cast<int>(messages.size()) : common.below(3);
    const bool in_order = style[static_cast<std::size_t>(message.to)] == Style::kInOrder;
    message.base = in_order ? kBases[common.below(static_cast<int>(std::size(kBases)))]
                            : base_[static_cast<std::size_t>(message.to)];
    int size = 0;
    MPI_Type_size(message.base, &size);
    message.elements = draw_bytes(common, in_order) / size;
    message.seed = static_cast<std::uint64_t>(common.below(1 << 30)) << 8;
    if (in_order && message.from != message.to && style[static_cast<std::size_t>(message.from)] != Style::kServer &&
        common.one_in(6))
        message.times = 2 + common.below(2);
    messages.push_back(message);
}

// Now and then the last two messages are the two of a Sendrecv.
void Graph::draw_exchange(Dice& common) {
    if (messages.size() < 2)
        return;
    Message& out = messages[messages.size() - 2];
    Message& in = messages.back();
    const auto sender = static_cast<std::size_t>(out.from);
    if (out.from != in.to || out.from == out.to || in.from == in.to || style[sender] != Style::kInOrder)
        return;
    if ((messages.size() > 2 && messages[messages.size() - 3].exchange) || common.one_in(4))
        return;
    out.exchange = true;
    out.times = in.times = 1;
    if (!common.one_in(3))
        return;
    out.replace = true;  // one count and one type for both
    in.base = out.base;
    in.elements = common.one_in(2) ? out.elements : common.below(out.elements + 1);
}

}  // namespace p2p_test
