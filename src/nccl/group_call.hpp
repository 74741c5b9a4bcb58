// Makes several NCCL calls one group: NCCL then treats them as one operation, in which no order of the calls can
// deadlock (NCCL guide, "Group calls").
#pragma once

#include "nccl/library.hpp"

namespace swy::nccl {

inline thread_local unsigned long groups_begun = 0;  // by this thread; the trace tells groups from single calls by it

class GroupCall {
  public:
    explicit GroupCall(const Entries& nccl) : nccl_(nccl), first_(nccl.GroupStart()) { ++groups_begun; }
    void add(ncclResult_t result) {
        if (first_ == ncclSuccess)
            first_ = result;
    }
    ncclResult_t end() {
        const ncclResult_t ended = nccl_.GroupEnd();
        return first_ == ncclSuccess ? ended : first_;
    }

  private:
    const Entries& nccl_;
    ncclResult_t first_;
};

}  // namespace swy::nccl
