// Which of the driver's calls are forbidden beside a stream's capture, and which of them invalidate it.
//   captures
// One process, with a child whose memory it opens. Prints "capture CALL" with a column for each of kSituations: the
// call's result, with "!" when the capture was invalidated ("!904" when it ended with that instead), "absent" when the
// driver lacks the call, or "before=1" when what the call needs could not be made. Then "rule NAME" with the results of
// calls that begin, end or wait for a capture. The same answers are expected of a virtual GPU.
#include "captures.hpp"

#include <array>
#include <cstdio>
#include <optional>

#include "owner.hpp"

using namespace captures;

namespace {

void CUDA_CB nothing(void*) {}

void memory_calls(Bench& b) {
    CUdeviceptr memory = 0;
    void* host = nullptr;
    const auto allocate = [&] { return DRIVER(cuMemAlloc)(&memory, kBytes); };
    const auto release = [&] { return DRIVER(cuMemFree)(memory); };
    b.run(creates("cuMemAlloc", allocate, release));
    b.run(destroys("cuMemFree", allocate, release, Undoes::kAddress));
    const auto host_allocate = [&] { return DRIVER(cuMemHostAlloc)(&host, kBytes, 0); };
    const auto host_release = [&] { return DRIVER(cuMemFreeHost)(host); };
    b.run(creates("cuMemHostAlloc", host_allocate, host_release));
    b.run(destroys("cuMemFreeHost", host_allocate, host_release, Undoes::kAddress));
    const auto enlist = [&] { return DRIVER(cuMemHostRegister)(b.registered.data(), kBytes, 0); };
    const auto delist = [&] { return DRIVER(cuMemHostUnregister)(b.registered.data()); };
    b.run(creates("cuMemHostRegister", enlist, delist));
    b.run(destroys("cuMemHostUnregister", enlist, delist, Undoes::kAddress));
    b.run(creates(
        "cuMemAllocManaged", [&] { return DRIVER(cuMemAllocManaged)(&memory, kBytes, CU_MEM_ATTACH_GLOBAL); },
        release));
    b.run({"cuMemcpyHtoD:pageable", [&] { return DRIVER(cuMemcpyHtoD)(b.to, b.pageable.data(), kBytes); }});
    b.run({"cuMemcpyHtoD:pinned", [&] { return DRIVER(cuMemcpyHtoD)(b.to, b.pinned.address(), kBytes); }});
    b.run({"cuMemcpyDtoH:pageable", [&] { return DRIVER(cuMemcpyDtoH)(b.pageable.data(), b.from, kBytes); }});
    b.run({"cuMemcpyDtoD", [&] { return DRIVER(cuMemcpyDtoD)(b.to, b.from, kBytes); }});
    b.run({"cuMemsetD8", [&] { return DRIVER(cuMemsetD8)(b.to, 0, kBytes); }});
    b.run({"cuMemcpyAsync:other", [&] { return DRIVER(cuMemcpyAsync)(b.to, b.from, kBytes, b.other); }});
    b.run({"cuMemcpyAsync:legacy", [&] { return DRIVER(cuMemcpyAsync)(b.to, b.from, kBytes, nullptr); }});
    b.run({"cuMemsetD8Async:other", [&] { return DRIVER(cuMemsetD8Async)(b.to, 0, kBytes, b.other); }});
}

void stream_calls(Bench& b) {
    CUstream stream = nullptr;
    const auto create = [&] { return make_stream(&stream); };
    const auto destroy = [&] { return DRIVER(cuStreamDestroy)(stream); };
    b.run(creates(
        "cuStreamCreate", [&] { return make_stream(&stream, CU_STREAM_DEFAULT); }, destroy));
    b.run(creates("cuStreamCreate:non-blocking", create, destroy));
    b.run(destroys("cuStreamDestroy", create, destroy));
    b.run({"cuStreamQuery:other", [&] { return DRIVER(cuStreamQuery)(b.other); }});
    b.run({"cuStreamSynchronize:other", [&] { return DRIVER(cuStreamSynchronize)(b.other); }});
    b.run({"cuStreamQuery:legacy", [] { return DRIVER(cuStreamQuery)(nullptr); }});
    b.run({"cuStreamSynchronize:legacy", [] { return DRIVER(cuStreamSynchronize)(nullptr); }});
    b.run({"cuStreamQuery:captured", [&] { return DRIVER(cuStreamQuery)(b.captured); }});
    b.run({"cuStreamSynchronize:captured", [&] { return DRIVER(cuStreamSynchronize)(b.captured); }});
    b.run({"cuStreamIsCapturing:legacy", [] {
               CUstreamCaptureStatus status{};
               return DRIVER(cuStreamIsCapturing)(nullptr, &status);
           }});
}

void event_calls(Bench& b) {
    CUevent event = nullptr, later = nullptr;
    const auto create = [&] { return DRIVER(cuEventCreate)(&event, CU_EVENT_DEFAULT); };
    const auto destroy = [&] { return DRIVER(cuEventDestroy)(event); };
    b.run(creates("cuEventCreate", create, destroy));
    b.run(destroys("cuEventDestroy", create, destroy));
    const auto recorded = [&] { return all(create, [&] { return DRIVER(cuEventRecord)(event, b.other); }); };
    const auto tidy = [&](int) { destroy(); };
    b.run({"cuEventRecord:other", [&] { return DRIVER(cuEventRecord)(event, b.other); }, create, tidy});
    b.run({"cuEventRecord:legacy", [&] { return DRIVER(cuEventRecord)(event, nullptr); }, create, tidy});
    b.run({"cuEventQuery", [&] { return DRIVER(cuEventQuery)(event); }, recorded, tidy});
    b.run({"cuEventSynchronize", [&] { return DRIVER(cuEventSynchronize)(event); }, recorded, tidy});
    const auto both = [&] {
        return all(
            recorded, [&] { return DRIVER(cuEventCreate)(&later, CU_EVENT_DEFAULT); },
            [&] { return DRIVER(cuEventRecord)(later, b.other); });
    };
    b.run({"cuEventElapsedTime",
           [&] {
               float milliseconds = 0;
               return DRIVER(cuEventElapsedTime)(&milliseconds, event, later);
           },
           both,
           [&](int) {
               destroy();
               DRIVER(cuEventDestroy)(later);
           }});
    b.run({"cuStreamWaitEvent:other", [&] { return DRIVER(cuStreamWaitEvent)(b.other, event, 0); }, recorded, tidy});
    b.run({"cuStreamWaitEvent:legacy", [&] { return DRIVER(cuStreamWaitEvent)(nullptr, event, 0); }, recorded, tidy});
    b.run({"cuIpcGetEventHandle",
           [&] {
               CUipcEventHandle handle;
               return DRIVER(cuIpcGetEventHandle)(&handle, event);
           },
           [&] { return DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS); }, tidy});
}

void code_calls(Bench& b) {
    CUmodule module = nullptr;
    CUlibrary library = nullptr;
    CUfunction fresh = nullptr;
    int number = 0;
    const auto load = [&] { return DRIVER(cuModuleLoadData)(&module, kCode); };
    const auto unload = [&] { return DRIVER(cuModuleUnload)(module); };
    const auto get = [&] { return DRIVER(cuModuleGetFunction)(&fresh, module, "nothing"); };
    const auto tidy = [&](int) { unload(); };
    b.run(creates("cuModuleLoadData", load, unload));
    b.run(destroys("cuModuleUnload", load, unload));
    b.run({"cuModuleGetFunction", get, load, tidy});
    const auto load_library = [&] {
        return DRIVER(cuLibraryLoadData)(&library, kCode, nullptr, nullptr, 0, nullptr, nullptr, 0);
    };
    const auto unload_library = [&] { return DRIVER(cuLibraryUnload)(library); };
    b.run(creates("cuLibraryLoadData", load_library, unload_library));
    b.run(destroys("cuLibraryUnload", load_library, unload_library));
    b.run({"cuLaunchKernel:other", [&] { return b.launch(b.other); }});
    b.run({"cuLaunchKernel:first",
           [&] { return DRIVER(cuLaunchKernel)(fresh, 1, 1, 1, 1, 1, 1, 0, b.other, nullptr, nullptr); },
           [&] { return all(load, get); }, tidy});
    b.run({"cuLaunchKernel:legacy", [&] { return b.launch(nullptr); }});
    b.run({"cuLaunchHostFunc:other", [&] { return DRIVER(cuLaunchHostFunc)(b.other, nothing, nullptr); }});
    b.run({"cuFuncGetAttribute",
           [&] { return DRIVER(cuFuncGetAttribute)(&number, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, b.function); }});
    b.run({"cuOccupancyMaxActiveBlocksPerMultiprocessor",
           [&] { return DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&number, b.function, 32, 0); }});
}

void context_calls(Bench& b) {
    CUcontext context = nullptr;
    int number = 0;
    std::size_t available = 0, total = 0;
    b.run({"cuCtxSynchronize", synchronize});
    b.run({"cuCtxPushCurrent+Pop", [&] {
               return all([&] { return DRIVER(cuCtxPushCurrent)(b.context); },
                          [&] { return DRIVER(cuCtxPopCurrent)(&context); });
           }});
    b.run({"cuCtxGetCurrent", [&] { return DRIVER(cuCtxGetCurrent)(&context); }});
    b.run({"cuCtxSetCurrent", [&] { return DRIVER(cuCtxSetCurrent)(b.context); }});
    b.run(creates(
        "cuDevicePrimaryCtxRetain", [&] { return DRIVER(cuDevicePrimaryCtxRetain)(&context, 0); },
        [] { return DRIVER(cuDevicePrimaryCtxRelease)(0); }));
    b.run({"cuDeviceGetAttribute",
           [&] { return DRIVER(cuDeviceGetAttribute)(&number, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0); }});
    b.run({"cuMemGetInfo", [&] { return DRIVER(cuMemGetInfo)(&available, &total); }});
    b.run({"cuThreadExchangeStreamCaptureMode", [] {
               CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
               const auto exchange = [&] { return DRIVER(cuThreadExchangeStreamCaptureMode)(&mode); };
               return all(exchange, exchange);
           }});
}

void address_calls(Bench& b, const gpu::Owner& owner) {
    CUdeviceptr memory = 0;
    std::size_t bytes = 0;
    CUmemorytype type{};
    CUipcMemHandle handle;
    b.run({"cuPointerGetAttribute",
           [&] { return DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b.from); }});
    b.run({"cuPointerGetAttributes", [&] {
               CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
               void* values[] = {&type, &memory};
               return DRIVER(cuPointerGetAttributes)(2, which, values, b.from);
           }});
    b.run({"cuPointerSetAttribute:SYNC_MEMOPS",
           [&] {
               const int on = 1;
               return DRIVER(cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory);
           },
           [&] { return DRIVER(cuMemAlloc)(&memory, kBytes); },
           [&](int) {
               DRIVER(cuMemFree)
               (memory);
           }});
    b.run({"cuMemGetAddressRange", [&] { return DRIVER(cuMemGetAddressRange)(&memory, &bytes, b.from); }});
    b.run({"cuMemHostGetDevicePointer",
           [&] { return DRIVER(cuMemHostGetDevicePointer)(&memory, b.pinned.address(), 0); }});
    b.run({"cuIpcGetMemHandle", [&] { return DRIVER(cuIpcGetMemHandle)(&handle, b.from); }});
    const std::optional<CUipcMemHandle> others = owner.handle();
    const auto open = [&] {
        return others ? DRIVER(cuIpcOpenMemHandle)(&memory, *others, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) : kAbsent;
    };
    const auto close_it = [&] { return DRIVER(cuIpcCloseMemHandle)(memory); };
    b.run(creates("cuIpcOpenMemHandle", open, close_it));
    b.run(destroys("cuIpcCloseMemHandle", open, close_it, Undoes::kAddress));
}

void pool_calls(Bench& b) {
    CUdeviceptr memory = 0;
    CUmemoryPool pool = nullptr;
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    const auto allocate = [&] { return DRIVER(cuMemAllocAsync)(&memory, kBytes, b.other); };
    const auto release = [&] { return DRIVER(cuMemFreeAsync)(memory, b.other); };
    b.run(creates("cuMemAllocAsync:other", allocate, release));
    b.run(destroys("cuMemFreeAsync:other", allocate, release, Undoes::kAddress));
    const auto create = [&] { return DRIVER(cuMemPoolCreate)(&pool, &props); };
    const auto destroy = [&] { return DRIVER(cuMemPoolDestroy)(pool); };
    b.run(creates("cuMemPoolCreate", create, destroy));
    b.run(destroys("cuMemPoolDestroy", create, destroy));
}

void mapping_calls(Bench& b) {
    CUmemAllocationProp props{};
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccessDesc access{};
    access.location = props.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    std::size_t bytes = 0;
    DRIVER(cuMemGetAllocationGranularity)(&bytes, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    CUdeviceptr place = 0;
    CUmemGenericAllocationHandle block = 0;
    const auto reserve = [&] { return DRIVER(cuMemAddressReserve)(&place, bytes, 0, 0, 0); };
    const auto leave = [&] { return DRIVER(cuMemAddressFree)(place, bytes); };
    const auto create = [&] { return DRIVER(cuMemCreate)(&block, bytes, &props, 0); };
    const auto release = [&] { return DRIVER(cuMemRelease)(block); };
    const auto map = [&] { return DRIVER(cuMemMap)(place, bytes, 0, block, 0); };
    const auto unmap = [&] { return DRIVER(cuMemUnmap)(place, bytes); };
    const auto tidy = [&](bool mapped) {
        if (mapped)
            unmap();
        release();
        leave();
    };
    b.run(creates("cuMemAddressReserve", reserve, leave));
    b.run(destroys("cuMemAddressFree", reserve, leave, Undoes::kAddress));
    b.run(creates("cuMemCreate", create, release));
    b.run(destroys("cuMemRelease", create, release));
    b.run({"cuMemMap", map, [&] { return all(reserve, create); }, [&](int result) { tidy(result == 0); }});
    const auto mapped = [&] { return all(reserve, create, map); };
    b.run({"cuMemSetAccess", [&] { return DRIVER(cuMemSetAccess)(place, bytes, &access, 1); }, mapped,
           [&](int) { tidy(true); }});
    b.run({"cuMemUnmap", unmap, mapped, [&](int result) { tidy(result != 0); }});
    int file = -1;
    b.run({"cuMemExportToShareableHandle",
           [&] {
               return DRIVER(cuMemExportToShareableHandle)(&file, block, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
           },
           create,
           [&](int result) {
               if (result == 0)
                   close(file);
               release();
           }});
}

void graph_calls(Bench& b) {
    CUgraph graph = nullptr;
    CUgraphExec instance = nullptr;
    const auto captured = [&] {
        return all([&] { return begin(b.other); }, [&] { return b.launch(b.other); },
                   [&] { return DRIVER(cuStreamEndCapture)(b.other, &graph); });
    };
    const auto destroy = [&] { return DRIVER(cuGraphDestroy)(graph); };
    const auto instantiate = [&] { return DRIVER(cuGraphInstantiateWithFlags)(&instance, graph, 0); };
    const auto destroy_instance = [&] { return DRIVER(cuGraphExecDestroy)(instance); };
    const auto launch = [&] { return DRIVER(cuGraphLaunch)(instance, b.other); };
    b.run(creates(
        "cuGraphCreate", [&] { return DRIVER(cuGraphCreate)(&graph, 0); }, destroy));
    b.run({"cuGraphInstantiateWithFlags", instantiate, captured, [&](int result) {
               if (result == 0)
                   destroy_instance();
               destroy();
           }});
    b.run({"cuGraphLaunch:other", launch, [&] { return all(captured, instantiate, launch); },
           [&](int) {
               destroy_instance();
               destroy();
           }});
}

// A stream's own, or minus the error when asking failed.
int status(CUstream stream) {
    CUstreamCaptureStatus found{};
    const int result = DRIVER(cuStreamIsCapturing)(stream, &found);
    return result == 0 ? static_cast<int>(found) : -result;
}

// Runs calls on two new streams and a new event, and prints what they return. They end the capture themselves.
template <std::size_t N>
void rule(const char* name, std::array<int, N> (*results)(CUstream origin, CUstream side, CUevent event)) {
    alarm(kRowSeconds);
    std::printf("rule %s", name);
    CUstream origin = nullptr, side = nullptr;
    CUevent event = nullptr;
    make_stream(&origin);
    make_stream(&side);
    DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
    for (const int result : results(origin, side, event))
        std::printf(" %d", result);
    std::printf("\n");
    synchronize();
    DRIVER(cuEventDestroy)(event);
    DRIVER(cuStreamDestroy)(side);
    DRIVER(cuStreamDestroy)(origin);
}

void fork(CUstream origin, CUstream side, CUevent event) {
    begin(origin);
    DRIVER(cuEventRecord)(event, origin);
    DRIVER(cuStreamWaitEvent)(side, event, 0);
}

void rules() {
    rule<4>("end-by-other-thread", [](CUstream origin, CUstream, CUevent) {
        CUcontext context = nullptr;
        DRIVER(cuCtxGetCurrent)(&context);
        Companion companion(context, false);
        begin(origin);
        const int ended = companion.make([&] { return end(origin); });
        CUstreamCaptureStatus found{};
        const int asked = DRIVER(cuStreamIsCapturing)(origin, &found);
        return std::array{ended, asked, static_cast<int>(found), end(origin)};
    });
    rule<3>("end-of-forked-stream", [](CUstream origin, CUstream side, CUevent event) {
        fork(origin, side, event);
        const int ended = end(side), found = status(origin);
        return std::array{ended, found, end(origin)};
    });
    rule<2>("unjoined", [](CUstream origin, CUstream side, CUevent event) {
        fork(origin, side, event);
        const int ended = end(origin);
        return std::array{ended, status(side)};
    });
    rule<2>("unjoined-work", [](CUstream origin, CUstream side, CUevent event) {
        fork(origin, side, event);
        DRIVER(cuLaunchHostFunc)(side, nothing, nullptr);
        const int ended = end(origin);
        return std::array{ended, status(side)};
    });
    rule<2>("begin-twice", [](CUstream origin, CUstream, CUevent) {
        begin(origin);
        const int again = begin(origin);
        return std::array{again, end(origin)};
    });
    rule<3>("exchange-bad-mode", [](CUstream, CUstream, CUevent) {
        const auto exchange = [](CUstreamCaptureMode& mode) {
            return DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
        };
        CUstreamCaptureMode bad = static_cast<CUstreamCaptureMode>(7), back = CU_STREAM_CAPTURE_MODE_RELAXED,
                            usual = CU_STREAM_CAPTURE_MODE_GLOBAL;
        const int refused = exchange(bad), exchanged = exchange(back);
        exchange(usual);
        return std::array{refused, exchanged, static_cast<int>(back)};
    });
    rule<2>("query-captured-event", [](CUstream origin, CUstream, CUevent event) {
        begin(origin);
        DRIVER(cuEventRecord)(event, origin);
        const int asked = DRIVER(cuEventQuery)(event);
        return std::array{asked, end(origin)};
    });
    rule<2>("synchronize-captured-event", [](CUstream origin, CUstream, CUevent event) {
        begin(origin);
        DRIVER(cuEventRecord)(event, origin);
        const int waited = DRIVER(cuEventSynchronize)(event);
        return std::array{waited, end(origin)};
    });
}

}  // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IONBF, 0);  // says which row hangs
    const gpu::Owner owner(kBytes);
    gpu::Driver::get().use(0);
    Bench bench;
    memory_calls(bench);
    stream_calls(bench);
    event_calls(bench);
    code_calls(bench);
    context_calls(bench);
    address_calls(bench, owner);
    pool_calls(bench);
    mapping_calls(bench);
    graph_calls(bench);
    rules();
    return 0;
}
