// Which of the driver's calls wait for what runs on the device: a kernel, or a function of the host's, on a stream that
// synchronises with the default one or on one that does not. What runs ends when the call has returned, or has not for
// kHold: then it waits.
//   waits
// One process, with a child whose memory it opens. Prints "waits CALL KERNEL KERNEL-NON-BLOCKING FUNCTION
// FUNCTION-NON-BLOCKING", each "yes" or "no". The same answers are expected of a virtual GPU. Run by checks.py.
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../mpi/gpu.hpp"
#include "owner.hpp"

namespace {

constexpr auto kHold = std::chrono::milliseconds(250);
constexpr std::size_t kSmall = 4096, kLarge = 16u << 20;

const char* const kCode = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 spin_flag)
{
    .reg .u64 %rd<3>;
    .reg .u32 %r<2>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [spin_flag];
    cvta.to.global.u64 %rd2, %rd1;
again:
    ld.volatile.global.u32 %r1, [%rd2];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
.visible .entry nothing()
{
    ret;
}
)";

template <typename F>
F* driver(const char* name) {
    return gpu::Driver::get().call<F>(name);
}

void must(const char* what, int result) {
    gpu::Driver::check(what, result);
}

void CUDA_CB wait_for(void* flag) {
    while (*static_cast<volatile std::uint32_t*>(flag) == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

// A call, with what has to be there before it is made and goes after.
struct Call {
    std::string name;
    std::function<int()> make;
    std::function<void()> before = [] {};
    std::function<void()> after = [] {};
};

class Bench {
  public:
    Bench() {
        must("cuModuleLoadData", driver<int(CUmodule*, const void*)>("cuModuleLoadData")(&module_, kCode));
        const auto function = driver<int(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
        must("cuModuleGetFunction", function(&spin_, module_, "spin"));
        must("cuModuleGetFunction", function(&nothing_, module_, "nothing"));
        const auto create = driver<int(CUstream*, unsigned)>("cuStreamCreate");
        must("cuStreamCreate", create(&blocking_, CU_STREAM_DEFAULT));
        must("cuStreamCreate", create(&apart_, CU_STREAM_NON_BLOCKING));
        must("cuStreamCreate", create(&other_, CU_STREAM_NON_BLOCKING));
        *flag() = 1;
        hold(true, apart_);  // functions are loaded when they are first launched
        launch(nothing_, other_, nullptr);
        must("cuCtxSynchronize", driver<int()>("cuCtxSynchronize")());
    }

    CUstream other() const { return other_; }
    CUfunction nothing() const { return nothing_; }
    void launch(CUfunction function, CUstream stream, void** arguments) {
        must("cuLaunchKernel", driver<decltype(cuLaunchKernel)>("cuLaunchKernel")(function, 1, 1, 1, 1, 1, 1, 0, stream,
                                                                                  arguments, nullptr));
    }

    void run(const Call& call) {
        std::printf("waits %s", call.name.c_str());
        for (const bool kernel : {true, false})
            for (CUstream const stream : {blocking_, apart_})
                std::printf(" %s", waited(call, kernel, stream) ? "yes" : "no");
        std::printf("\n");
        std::fflush(stdout);
    }

  private:
    volatile std::uint32_t* flag() const { return static_cast<volatile std::uint32_t*>(pinned_.address()); }
    void hold(bool kernel, CUstream stream) {
        void* address = pinned_.address();
        void* arguments[] = {&address};
        if (kernel)
            launch(spin_, stream, arguments);
        else
            must("cuLaunchHostFunc",
                 driver<int(CUstream, CUhostFn, void*)>("cuLaunchHostFunc")(stream, wait_for, address));
    }
    bool waited(const Call& call, bool kernel, CUstream stream) {
        call.before();
        must("cuCtxSynchronize", driver<int()>("cuCtxSynchronize")());
        *flag() = 0;
        hold(kernel, stream);
        driver<int(CUstream)>("cuStreamQuery")(stream);  // sends it to the device
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::promise<void> returned;
        auto opened = std::async(std::launch::async, [this, end = returned.get_future()] {
            const bool in_time = end.wait_for(kHold) == std::future_status::ready;
            *flag() = 1;
            return in_time;
        });
        const int result = call.make();
        returned.set_value();
        const bool in_time = opened.get();
        must(call.name.c_str(), result);
        must("cuCtxSynchronize", driver<int()>("cuCtxSynchronize")());
        call.after();
        return !in_time;
    }

    gpu::Memory pinned_{gpu::Kind::kPinned, 64};
    CUmodule module_ = nullptr;
    CUfunction spin_ = nullptr, nothing_ = nullptr;
    CUstream blocking_ = nullptr, apart_ = nullptr, other_ = nullptr;
};

}  // namespace

int main() {
    const gpu::Owner owner(kLarge);
    gpu::Driver::get().use(0);
    Bench bench;
    const gpu::Memory device(gpu::Kind::kDevice, kLarge), second(gpu::Kind::kDevice, kLarge),
        pinned(gpu::Kind::kPinned, kLarge);
    std::vector<char> heap(kLarge);
    const auto from = reinterpret_cast<CUdeviceptr>(device.address()),
               to = reinterpret_cast<CUdeviceptr>(second.address());
    CUdeviceptr memory = 0;
    void* host = nullptr;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    CUmodule module = nullptr;
    CUstream const other = bench.other();
    const auto allocate = driver<int(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2");
    const auto release = driver<int(CUdeviceptr)>("cuMemFree_v2");
    const auto host_allocate = driver<int(void**, std::size_t, unsigned)>("cuMemHostAlloc");
    const auto host_release = driver<int(void*)>("cuMemFreeHost");
    const auto enlist = driver<int(void*, std::size_t, unsigned)>("cuMemHostRegister_v2");
    const auto delist = driver<int(void*)>("cuMemHostUnregister");
    const auto upload = driver<int(CUdeviceptr, const void*, std::size_t)>("cuMemcpyHtoD_v2");
    const auto download = driver<int(void*, CUdeviceptr, std::size_t)>("cuMemcpyDtoH_v2");
    const auto synchronize = driver<int(CUstream)>("cuStreamSynchronize");
    const auto load = driver<int(CUmodule*, const void*)>("cuModuleLoadData");
    const auto unload = driver<int(CUmodule)>("cuModuleUnload");
    const auto make_stream = driver<int(CUstream*, unsigned)>("cuStreamCreate");
    const auto end_stream = driver<int(CUstream)>("cuStreamDestroy_v2");
    const auto make_event = driver<int(CUevent*, unsigned)>("cuEventCreate");
    const auto end_event = driver<int(CUevent)>("cuEventDestroy_v2");
    const auto allocate_async = driver<int(CUdeviceptr*, std::size_t, CUstream)>("cuMemAllocAsync");
    const auto release_async = driver<int(CUdeviceptr, CUstream)>("cuMemFreeAsync");
    const auto copy = driver<int(CUdeviceptr, CUdeviceptr, std::size_t, CUstream)>("cuMemcpyAsync");
    for (const auto n : {kSmall, kLarge}) {
        const auto named = [n](const char* call) { return std::string(call) + ":" + std::to_string(n); };
        bench.run({named("cuMemAlloc"), [&, n] { return allocate(&memory, n); }, [] {}, [&] { release(memory); }});
        bench.run({named("cuMemFree"), [&] { return release(memory); }, [&, n] { allocate(&memory, n); }});
        bench.run({named("cuMemHostAlloc"), [&, n] { return host_allocate(&host, n, 0); }, [] {},
                   [&] { host_release(host); }});
        bench.run({named("cuMemFreeHost"), [&] { return host_release(host); }, [&, n] { host_allocate(&host, n, 0); }});
        bench.run({named("cuMemHostRegister"), [&, n] { return enlist(heap.data(), n, 0); }, [] {},
                   [&] { delist(heap.data()); }});
        bench.run(
            {named("cuMemHostUnregister"), [&] { return delist(heap.data()); }, [&, n] { enlist(heap.data(), n, 0); }});
        bench.run({named("cuMemAllocAsync"), [&, n] { return allocate_async(&memory, n, other) + synchronize(other); },
                   [] {}, [&] { release(memory); }});
        bench.run({named("cuMemFreeAsync"), [&] { return release_async(memory, other) + synchronize(other); },
                   [&, n] { allocate_async(&memory, n, other); }});
        bench.run({named("cuMemcpyHtoD:pageable"), [&, n] { return upload(from, heap.data(), n); }});
        bench.run({named("cuMemcpyHtoD:pinned"), [&, n] { return upload(from, pinned.address(), n); }});
        bench.run({named("cuMemcpyDtoH:pageable"), [&, n] { return download(heap.data(), from, n); }});
        bench.run({named("cuMemcpyDtoH:pinned"), [&, n] { return download(pinned.address(), from, n); }});
        bench.run({named("cuMemcpyAsync:device"), [&, n] { return copy(to, from, n, other) + synchronize(other); }});
    }
    bench.run({"cuModuleLoadData", [&] { return load(&module, kCode); }, [] {}, [&] { unload(module); }});
    bench.run({"cuModuleUnload", [&] { return unload(module); }, [&] { load(&module, kCode); }});
    CUlibrary library = nullptr;
    const auto library_load = driver<decltype(cuLibraryLoadData)>("cuLibraryLoadData");
    const auto library_unload = driver<decltype(cuLibraryUnload)>("cuLibraryUnload");
    const auto load_library = [&] { return library_load(&library, kCode, nullptr, nullptr, 0, nullptr, nullptr, 0); };
    bench.run({"cuLibraryLoadData", load_library, [] {}, [&] { library_unload(library); }});
    bench.run({"cuLibraryUnload", [&] { return library_unload(library); }, load_library});
    bench.run({"cuStreamCreate", [&] { return make_stream(&stream, CU_STREAM_NON_BLOCKING); }, [] {},
               [&] { end_stream(stream); }});
    bench.run(
        {"cuStreamDestroy", [&] { return end_stream(stream); }, [&] { make_stream(&stream, CU_STREAM_NON_BLOCKING); }});
    bench.run({"cuEventCreate", [&] { return make_event(&event, CU_EVENT_DISABLE_TIMING); }, [] {},
               [&] { end_event(event); }});
    bench.run(
        {"cuEventDestroy", [&] { return end_event(event); }, [&] { make_event(&event, CU_EVENT_DISABLE_TIMING); }});
    bench.run({"cuLaunchKernel", [&] {
                   bench.launch(bench.nothing(), other, nullptr);
                   return synchronize(other);
               }});
    CUfunction fresh = nullptr;
    bench.run({"cuLaunchKernel:first",
               [&] {
                   driver<int(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction")(&fresh, module, "nothing");
                   bench.launch(fresh, other, nullptr);
                   return synchronize(other);
               },
               [&] { load(&module, kCode); }, [&] { unload(module); }});
    bench.run({"cuPointerSetAttribute:SYNC_MEMOPS", [&] {
                   const int on = 1;
                   return driver<decltype(cuPointerSetAttribute)>("cuPointerSetAttribute")(
                       &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, from);
               }});
    bench.run({"cuIpcGetMemHandle", [&] {
                   CUipcMemHandle handle;
                   return driver<int(CUipcMemHandle*, CUdeviceptr)>("cuIpcGetMemHandle")(&handle, from);
               }});
    const std::optional<CUipcMemHandle> others = owner.handle();
    if (!others)
        return 1;
    const auto map = driver<int(CUdeviceptr*, CUipcMemHandle, unsigned)>("cuIpcOpenMemHandle_v2");
    const auto unmap = driver<int(CUdeviceptr)>("cuIpcCloseMemHandle");
    const auto open = [&] { return map(&memory, *others, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS); };
    bench.run({"cuIpcOpenMemHandle", open, [] {}, [&] { unmap(memory); }});
    bench.run({"cuIpcCloseMemHandle", [&] { return unmap(memory); }, open});
    return 0;
}
