// Parses the file of SWITCHYARD_GROUPS: which ranks of MPI_COMM_WORLD belong to which group (switchyard(7), "Groups").
// A pure function from text to groups; nothing here calls MPI.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swy::named {

struct NamedGroup {
    std::string name;
    std::vector<int> ranks;  // of MPI_COMM_WORLD, in the group's order
    int line = 0;
};

// A line is NAME = RANKS, where RANKS are numbers, first-last or first-last/step, with blanks or commas between; a #
// begins a comment. A name may have several lines, whose groups have no rank in common. Returns "" or the error, with
// file and line; `groups` is then unspecified. `world` is the number of ranks.
std::string read_groups(std::string_view text, std::string_view file, int world, std::vector<NamedGroup>& groups);

}  // namespace swy::named
