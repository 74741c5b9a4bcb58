// The CUDA driver's entry points as bound in this process, and what this folder knows of contexts. Only src/device uses
// this.
#pragma once

#include <cuda.h>

#include <atomic>
#include <string>

#include "device/device.hpp"

// CUDA 12.4's headers and later ones declare it too.
extern "C" CUresult cuFuncLoad(CUfunction function);

namespace swy::device {

// One pointer for each entry point in the table entry_points.def. Optional ones are null in drivers that lack them.
struct Driver {
#define SWY_ENTRY(member, function, version, exported, need) decltype(&::function) member = nullptr;
#include "device/entry_points.def"
#undef SWY_ENTRY
    std::string file;  // of the library
    bool is_virtual = false;
};

inline CUdeviceptr pointer(const void* address) {
    return reinterpret_cast<CUdeviceptr>(address);
}

// Set once locate() has met memory that any of several devices may move (Location::any_device).
extern std::atomic<bool> any_device_moves;

// Set once locate() has met memory on which the driver does not make cudaMemcpy and cudaMemset wait for their end.
extern std::atomic<bool> memops_may_stay;

// Null while no driver is loaded or it is unusable, and always in a process made by fork(): the driver's state does not
// survive fork(), and MPI may not be called there.
extern std::atomic<const Driver*> the_driver;
inline const Driver* driver() {
    return the_driver.load(std::memory_order_acquire);
}

// The primary context of a device when the program has one there, otherwise null. Does not make one.
Context primary_context(const Driver& driver, int ordinal);
bool is_primary(const Driver& driver, Context context, int ordinal);

// The ordinal of a context's device, -1 where the driver does not say. Null stands for the calling thread's context.
int ordinal_of(const Driver& driver, Context context);

// The CallScope that the thread is in (call_scope.hpp).
struct CallsInScope {
    Context context = nullptr;           // null outside one
    int others = 0;                      // contexts that have been made current within it
    const ContextPool* alive = nullptr;  // the pool of a context that was found to be alive within it
    CUstreamCaptureMode mode{};          // the program's
};
extern constinit thread_local CallsInScope calls_in_scope;

// While an object of this class exists, this thread's driver calls neither fail because of a stream capture that the
// program has under way in any thread nor invalidate it (CUDA: cuThreadExchangeStreamCaptureMode). Otherwise even
// cuEventQuery would.
// Within a CallScope and a ContextScope it is so already.
class BesideCapture {
  public:
    explicit BesideCapture(const Driver& driver)
        : exchange_(calls_in_scope.context == nullptr ? driver.exchange_capture_mode : nullptr) {
        exchange();
    }
    ~BesideCapture() { exchange(); }
    BesideCapture(const BesideCapture&) = delete;
    BesideCapture& operator=(const BesideCapture&) = delete;

  private:
    void exchange() {
        if (exchange_ != nullptr)
            exchange_(&mode_);
    }
    decltype(Driver::exchange_capture_mode) exchange_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace swy::device
