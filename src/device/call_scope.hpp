// Several calls of the driver on one context, made as one: the context is made current, the capture mode exchanged and
// the context found to be alive once for all of them. For a few calls that follow each other at once; nothing of the
// program's, of MPI's or of NCCL's may be called within.
#pragma once

#include "device/device.hpp"

namespace swy::device {

class CallScope {
  public:
    explicit CallScope(Context context);  // null: does nothing
    ~CallScope();
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

  private:
    bool entered_ = false;
};

}  // namespace swy::device
