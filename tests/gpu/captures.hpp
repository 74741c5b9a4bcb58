// A call of the driver's beside captures of every sort: what tests/gpu/captures.cpp makes its rows with.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../mpi/gpu.hpp"

namespace captures {

inline constexpr std::size_t kBytes = 1u << 20;
inline constexpr int kAbsent = -1;
inline constexpr unsigned kRowSeconds = 20;  // a row takes some milliseconds: one that hangs ends the program

inline const char* const kCode = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing()
{
    ret;
}
)";

struct Situation {
    bool other_thread, relaxed_thread;
    CUstreamCaptureMode mode;
    unsigned stream;
};
inline constexpr Situation kSituations[] = {
    {false, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING},
    {true, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING},
    {false, false, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_NON_BLOCKING},
    {false, false, CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_DEFAULT},
    {true, true, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING},
};

// A function of the driver's, or kAbsent from one that it lacks.
template <typename F>
class Function;
template <typename... A>
class Function<CUresult(A...)> {
  public:
    explicit Function(const char* symbol)
        : function_(reinterpret_cast<CUresult (*)(A...)>(dlsym(RTLD_DEFAULT, symbol))) {}
    int operator()(A... arguments) const { return function_ == nullptr ? kAbsent : function_(arguments...); }

  private:
    CUresult (*function_)(A...);
};
#define SYMBOL(name) #name
#define DRIVER(name) Function<decltype(name)>(SYMBOL(name))  // cuda.h's macros give the name its version

// Calls each until one fails, and gives that one's result.
template <typename... F>
int all(const F&... calls) {
    int result = 0;
    static_cast<void>((((result = calls()) == 0) && ...));
    return result;
}

// A call, with what has to be there before it is made and goes after, which is told the call's result.
struct Call {
    std::string name;
    std::function<int()> make;
    std::function<int()> before = [] { return 0; };
    std::function<void(int)> after = [](int) {};
};
inline Call creates(std::string name, std::function<int()> make, const std::function<int()>& undo) {
    return {std::move(name), std::move(make), [] { return 0; },
            [undo](int result) {
                if (result == 0)
                    undo();
            }};
}
// A call that undoes what was made before. Of one that failed it is unknown whether a handle is still good: those stay.
enum class Undoes { kHandle, kAddress };
inline Call destroys(std::string name, std::function<int()> before, const std::function<int()>& make,
                     Undoes what = Undoes::kHandle) {
    return {std::move(name), make, std::move(before), [make, what](int result) {
                if (result != 0 && what == Undoes::kAddress)
                    make();
            }};
}

// A thread with the context current that makes one call when it is told to, and lives until the capture is over.
class Companion {
  public:
    Companion(CUcontext context, bool relaxed)
        : thread_([this, context, relaxed] {
              CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
              DRIVER(cuCtxSetCurrent)(context);
              if (relaxed)
                  DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
              ready_.set_value();
              result_.set_value(call_.get_future().get()());
              over_.get_future().wait();
          }) {
        ready_.get_future().wait();
    }
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;
    ~Companion() {
        over_.set_value();
        thread_.join();
    }
    int make(const std::function<int()>& call) {  // once
        call_.set_value(call);
        return result_.get_future().get();
    }

  private:
    std::promise<void> ready_, over_;
    std::promise<std::function<int()>> call_;
    std::promise<int> result_;
    std::thread thread_;
};

inline int make_stream(CUstream* stream, unsigned flags = CU_STREAM_NON_BLOCKING) {
    return DRIVER(cuStreamCreate)(stream, flags);
}
inline int begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    return DRIVER(cuStreamBeginCapture)(stream, mode);
}
inline int end(CUstream stream) {
    CUgraph graph = nullptr;
    const int result = DRIVER(cuStreamEndCapture)(stream, &graph);
    if (graph != nullptr)
        DRIVER(cuGraphDestroy)(graph);
    return result;
}
inline int synchronize() {
    return DRIVER(cuCtxSynchronize)();
}

// What the calls use, on the current context. Nothing of it takes part in a capture but `captured`, which is another
// stream in each.
struct Bench {
    Bench() {
        DRIVER(cuCtxGetCurrent)(&context);
        gpu::Driver::check("setting up", all([&] { return make_stream(&other); }, [&] { return load(); },
                                             [&] { return launch(other); }, synchronize));
    }
    int load() {
        return all([&] { return DRIVER(cuModuleLoadData)(&module, kCode); },
                   [&] { return DRIVER(cuModuleGetFunction)(&function, module, "nothing"); });
    }
    int launch(CUstream stream) const {
        return DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    }

    void run(const Call& call) {
        alarm(kRowSeconds);
        std::printf("capture %s", call.name.c_str());
        if (const int result = without_capture(call); result != 0 && result != kAbsent)
            std::fprintf(stderr, "captures: %s fails with %d without a capture\n", call.name.c_str(), result);
        for (const Situation& situation : kSituations)
            std::printf(" %s", column(call, situation).c_str());
        std::printf("\n");
    }
    // Also what the driver does once only is done then.
    int without_capture(const Call& call) {
        const int prepared = all(
            call.before, [&] { return make_stream(&captured); }, synchronize);
        if (prepared != 0)
            return prepared;
        const int made = call.make();
        synchronize();
        call.after(made);
        DRIVER(cuStreamDestroy)(captured);
        return made;
    }
    std::string column(const Call& call, const Situation& situation) {
        const int prepared = all(call.before, synchronize);
        if (prepared == kAbsent)
            return "absent";
        if (prepared != 0)
            return "before=" + std::to_string(prepared);
        std::optional<Companion> companion;
        if (situation.other_thread)
            companion.emplace(context, situation.relaxed_thread);
        make_stream(&captured, situation.stream);
        const int begun = begin(captured, situation.mode);
        const int made = companion ? companion->make(call.make) : call.make();
        const int ended = end(captured);
        companion.reset();
        synchronize();
        call.after(made);
        synchronize();
        DRIVER(cuStreamDestroy)(captured);
        if (begun != 0)
            return "begin=" + std::to_string(begun);
        if (made == kAbsent)
            return "absent";
        const std::string mark = ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ? "!" : "!" + std::to_string(ended);
        return std::to_string(made) + (ended == 0 ? "" : mark);
    }

    const gpu::Memory first{gpu::Kind::kDevice, kBytes}, second{gpu::Kind::kDevice, kBytes},
        pinned{gpu::Kind::kPinned, kBytes};
    const CUdeviceptr from = reinterpret_cast<CUdeviceptr>(first.address()),
                      to = reinterpret_cast<CUdeviceptr>(second.address());
    std::vector<char> pageable = std::vector<char>(kBytes), registered = std::vector<char>(kBytes);
    CUcontext context = nullptr;
    CUstream other = nullptr, captured = nullptr;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
};

}  // namespace captures
