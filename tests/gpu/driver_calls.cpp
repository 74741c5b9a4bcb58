// How long the driver's calls take of which a small message is made, on a context that has nothing else to do.
//   driver_calls
// One process. Prints "call NAME NANOSECONDS": the best of several averages. Run by checks.py.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

template <typename F>
F* driver(const char* name) {
    return gpu::Driver::get().call<F>(name);
}

void measure(const std::string& name, const std::function<int()>& call) {
    double best = 1e30;
    for (int run = 0; run < 7; ++run) {
        constexpr int kTimes = 2000;
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kTimes; ++i)
            gpu::Driver::check(name.c_str(), call());
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        best = std::min(best, took.count() / kTimes);
    }
    std::printf("call %s %.0f\n", name.c_str(), best);
}

void queries(void* device, void* pinned) {
    const auto one = driver<decltype(cuPointerGetAttribute)>("cuPointerGetAttribute");
    const auto several = driver<decltype(cuPointerGetAttributes)>("cuPointerGetAttributes");
    const std::vector<char> heap(1 << 20);
    const struct {
        const char* name;
        const void* address;
    } places[] = {{"device", device}, {"pinned", pinned}, {"pageable", heap.data()}};
    for (const auto& [name, place] : places) {
        const auto address = reinterpret_cast<CUdeviceptr>(place);
        if (place != heap.data())
            measure(std::string("cuPointerGetAttribute:type:") + name, [=] {
                unsigned type = 0;
                return one(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
            });
        measure(std::string("cuPointerGetAttributes:4:") + name, [=] {
            unsigned type = 0, managed = 0;
            int ordinal = 0;
            unsigned long long id = 0;
            CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_BUFFER_ID};
            void* answers[] = {&type, &managed, &ordinal, &id};
            return several(4, wanted, answers, address);
        });
    }
    const auto base = reinterpret_cast<CUdeviceptr>(device);
    measure("cuPointerSetAttribute:SYNC_MEMOPS",
            [=, set = driver<decltype(cuPointerSetAttribute)>("cuPointerSetAttribute")] {
                const int on = 1;
                return set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base);
            });
}

void contexts() {
    const auto current = driver<int(CUcontext*)>("cuCtxGetCurrent");
    CUcontext context = nullptr;
    current(&context);
    measure("cuCtxGetCurrent", [=] {
        CUcontext found = nullptr;
        return current(&found);
    });
    measure("cuCtxPushCurrent+cuCtxPopCurrent", [=, push = driver<int(CUcontext)>("cuCtxPushCurrent_v2"),
                                                 pop = driver<int(CUcontext*)>("cuCtxPopCurrent_v2")] {
        CUcontext old = nullptr;
        return push(context) + pop(&old);
    });
    measure("cuThreadExchangeStreamCaptureMode",
            [exchange = driver<int(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode")] {
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
                const int first = exchange(&mode);
                return first + exchange(&mode);
            });
}

void copies(void* device, void* other, void* pinned) {
    const auto from = reinterpret_cast<CUdeviceptr>(device), to = reinterpret_cast<CUdeviceptr>(other);
    const auto download = driver<int(void*, CUdeviceptr, std::size_t)>("cuMemcpyDtoH_v2");
    const auto upload = driver<int(CUdeviceptr, const void*, std::size_t)>("cuMemcpyHtoD_v2");
    const auto download_async = driver<int(void*, CUdeviceptr, std::size_t, CUstream)>("cuMemcpyDtoHAsync_v2");
    const auto upload_async = driver<int(CUdeviceptr, const void*, std::size_t, CUstream)>("cuMemcpyHtoDAsync_v2");
    const auto copy = driver<int(CUdeviceptr, CUdeviceptr, std::size_t, CUstream)>("cuMemcpyAsync");
    const auto synchronize = driver<int(CUstream)>("cuStreamSynchronize");
    const auto query = driver<int(CUevent)>("cuEventQuery");
    const auto record = driver<int(CUevent, CUstream)>("cuEventRecord");
    CUstream stream = nullptr;
    CUevent event = nullptr;
    driver<int(CUstream*, unsigned)>("cuStreamCreate")(&stream, CU_STREAM_NON_BLOCKING);
    driver<int(CUevent*, unsigned)>("cuEventCreate")(&event, CU_EVENT_DISABLE_TIMING);
    std::vector<char> heap(1 << 20);
    const auto write = driver<int(CUstream, CUdeviceptr, cuuint32_t, unsigned)>("cuStreamWriteValue32_v2");
    const gpu::Memory word(gpu::Kind::kPinned, 64);
    auto* const written = static_cast<volatile cuuint32_t*>(word.address());
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{16384}, std::size_t{65536}}) {
        const std::string size = ":" + std::to_string(bytes);
        measure("cuMemcpyDtoH:pinned" + size, [=] { return download(pinned, from, bytes); });
        measure("cuMemcpyDtoH:pageable" + size, [&] { return download(heap.data(), from, bytes); });
        measure("cuMemcpyHtoD:pinned" + size, [=] { return upload(from, pinned, bytes); });
        measure("cuMemcpyHtoD:pageable" + size, [&] { return upload(from, heap.data(), bytes); });
        measure("cuMemcpyDtoHAsync+cuStreamSynchronize" + size,
                [=] { return download_async(pinned, from, bytes, stream) + synchronize(stream); });
        measure("cuMemcpyHtoDAsync+cuStreamSynchronize" + size,
                [=] { return upload_async(from, pinned, bytes, stream) + synchronize(stream); });
        measure("cuMemcpyDtoHAsync+cuEventRecord+cuEventQuery" + size, [=] {
            int result = download_async(pinned, from, bytes, stream) + record(event, stream);
            for (int answer = CUDA_ERROR_NOT_READY; result == 0 && answer != 0;) {
                answer = query(event);
                if (answer != 0 && answer != CUDA_ERROR_NOT_READY)
                    result = answer;
            }
            return result;
        });
        // A stream may also write that it has come so far, into memory that the host looks at.
        measure("cuMemcpyDtoHAsync+cuStreamWriteValue32" + size, [&, bytes] {
            *written = 0;
            const int result = download_async(pinned, from, bytes, stream) +
                               write(stream, reinterpret_cast<CUdeviceptr>(word.address()), 1, 0);
            while (result == 0 && *written == 0) {
            }
            return result;
        });
        measure("cuMemcpyAsync:device+cuStreamSynchronize" + size,
                [=] { return copy(to, from, bytes, stream) + synchronize(stream); });
    }
    measure("cuEventQuery", [=] { return query(event); });
    measure("cuEventRecord", [=] { return record(event, stream); });
    measure("cuStreamQuery", [=, ask = driver<int(CUstream)>("cuStreamQuery")] {
        const int answer = ask(stream);
        return answer == CUDA_ERROR_NOT_READY ? 0 : answer;
    });
}

}  // namespace

int main() {
    gpu::Driver::get().use(0);
    const gpu::Memory device(gpu::Kind::kDevice, 1 << 20), other(gpu::Kind::kDevice, 1 << 20),
        pinned(gpu::Kind::kPinned, 1 << 20);
    queries(device.address(), pinned.address());
    contexts();
    copies(device.address(), other.address(), pinned.address());
    return 0;
}
