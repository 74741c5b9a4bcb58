// The file of SWITCHYARD_GROUPS: which ranks of MPI_COMM_WORLD belong to which group (switchyard(7), "Groups"). A plain
// function from a text to groups; nothing here calls MPI.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swy::comm {

struct NamedGroup {
    std::string name;
    std::vector<int> ranks;  // of MPI_COMM_WORLD, in the group's order
    int line = 0;
};

// A line is NAME = RANKS, where RANKS are numbers, first-last or first-last/step, with blanks or commas between;
// a # begins a comment. A name may have several lines, whose groups have no rank in common. Returns "" or what is
// wrong, with file and line; `groups` is then of no use. `world`: how many ranks there are.
std::string read_groups(std::string_view text, std::string_view file, int world, std::vector<NamedGroup>& groups);

}  // namespace swy::comm
