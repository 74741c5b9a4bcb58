// This process as a rank of a job that mpirun or srun has started, known from its environment alone, before MPI_Init.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace swy::cli {

// Returns whether a launcher has started this process as one of a job's ranks.
bool is_rank();

struct LocalRank {
    int rank = 0;  // among the ranks on this node
    int size = 1;
};
LocalRank local_rank();  // rank 0 of 1 where the launcher has set no variables

// An allgather of texts between the ranks of the node; the result is indexed by local rank. Blocks until all ranks have
// called it. Where one does not within `seconds`, or the node's folder for temporary files cannot be used, the result
// is empty and `problem` says why.
std::vector<std::string> exchange(const LocalRank& self, const std::string& text, double seconds, std::string& problem);

}  // namespace swy::cli
