// Counts the members of NCCL communicators in this process, for the report. Only communicator.cpp uses this.
#pragma once

namespace swy::nccl {

void count_made(long members);
void count_gone(long members);

}  // namespace swy::nccl
