/* The control block of the stand-in driver of these tests (fake_driver.cpp): what it shall answer, and what it was
 * asked. It plays what the virtual GPUs do not: drivers that are old, broken or incomplete, and answers as real drivers
 * give them in odd states. */
#ifndef SWITCHYARD_FAKE_DRIVER_H
#define SWITCHYARD_FAKE_DRIVER_H

#include <cuda.h>

#include <cstddef>
#include <cstdint>

struct FakeMemory {
    std::uintptr_t begin = 0;
    std::size_t size = 0;
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    bool managed = false;
    int ordinal = 0;
    CUcontext context = nullptr;
};

struct FakeDriver {
    CUresult init = CUDA_SUCCESS;
    bool initialised = false;            /* set by cuInit when it succeeds; else queries are refused */
    CUresult everything = CUDA_SUCCESS;  /* what pointer queries, streams and events return when not success */
    CUresult plural = CUDA_SUCCESS;      /* what cuPointerGetAttributes returns when not success */
    CUresult allocations = CUDA_SUCCESS; /* what cuMemAlloc returns when not success */
    CUresult host_register = CUDA_SUCCESS;
    CUresult host_unregister = CUDA_SUCCESS;
    CUresult legacy_capturing = CUDA_SUCCESS;
    FakeMemory memory[8];
    bool primary_active[2] = {true, false};
    unsigned long long context_id[2] = {1, 2}; /* changes when a context is reset */
    CUcontext current = nullptr;               /* of all threads */
    CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    bool strict_capture = false;                   /* refuse unsafe calls outside relaxed mode */
    CUresult stream_state = CUDA_SUCCESS;          /* what cuStreamQuery and cuEventQuery return */
    std::size_t copied = 0;                        /* bytes asked of cuMemcpyAsync, nothing is copied */
    long (*calls)(const char* function) = nullptr; /* of one function; nullptr: of all */
    void (*forget_calls)() = nullptr;
};

/* Handles: contexts are fake_context(ordinal), the primary ones. */
inline CUcontext fake_context(int ordinal) {
    return reinterpret_cast<CUcontext>(std::uintptr_t{0x1000} + ordinal);
}

extern "C" FakeDriver* fake_driver();

#endif
