// `switchyard run --gpus=near|spread`: what each rank does before it becomes the program. run.cpp calls it in a rank
// that another launcher has started; else mpirun starts `switchyard place`. The process knows itself as a rank from its
// environment alone, before MPI_Init.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swy::cli {

// Agrees with the other ranks of the node which GPUs this one is to see, and sets CUDA_VISIBLE_DEVICES to these. Where
// they cannot agree, the variable stays as it is, and standard error says why; where there is no choice it stays too.
void place(const std::string& gpus);

// Calls exec on the program; returns the exit status, after a sentence on standard error, when that fails.
int become(std::span<const std::string> program);

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
