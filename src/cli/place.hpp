// `switchyard run --gpus=near|spread`: what each rank does before it becomes the program. run.cpp calls it in a rank
// that another launcher has started; else mpirun starts `switchyard place`.
#pragma once

#include <span>
#include <string>

namespace swy::cli {

// Agrees with the other ranks of the node which GPUs this one is to see, and sets CUDA_VISIBLE_DEVICES to these. Where
// they cannot agree, the variable stays as it is, and standard error says why; where there is no choice it stays too.
void place(const std::string& gpus);

// Calls exec on the program; returns the exit status, after a sentence on standard error, when that fails.
int become(std::span<const std::string> program);

}  // namespace swy::cli
