// `switchyard run --gpus=near|spread`: what each rank does before it becomes the program. run.cpp calls it in a rank
// that another launcher has started; else mpirun starts `switchyard place`.
#pragma once

#include <span>
#include <string>

namespace swy::cli {

// Settles with the other ranks of the node which GPUs this one is to see, and sets CUDA_VISIBLE_DEVICES so. Leaves it
// as it is, and says why, where that cannot be settled; where there is nothing to settle it says nothing.
void place(const std::string& gpus);

// Becomes the program; returns the exit status, with a sentence on standard error, when that is not possible.
int become(std::span<const std::string> program);

}  // namespace swy::cli
