// This process as a rank of a job that mpirun or srun has started, known from its environment alone, before MPI_Init.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace swy::cli {

// Whether a launcher has started this process as one of a job's ranks.
bool is_rank();

struct LocalRank {
    int rank = 0;  // among the ranks on this node
    int size = 1;
};
LocalRank local_rank();  // a rank alone where the launcher does not say

// Every rank of the node hands in a text and gets all of them, by local rank. Blocks until all have. Where one does not
// come within `seconds`, or the node's folder for temporary files cannot be used, the result is empty and `problem`
// says why.
std::vector<std::string> exchange(const LocalRank& self, const std::string& text, double seconds, std::string& problem);

}  // namespace swy::cli
