// What a stream capture under way forbids and takes: cuda.h at cuStreamBeginCapture and
// cuThreadExchangeStreamCaptureMode, and the CUDA C++ Programming Guide, "Prohibited and Unhandled Operations" and
// "Invalidation" of stream capture. A call that is forbidden invalidates the captures that forbid it.
#pragma once

#include "vgpu/core/capture.hpp"
#include "vgpu/cuda/api.hpp"

namespace vgpu::cuda {

// Whether this thread may make a potentially unsafe call.
CUresult potentially_unsafe();
// Whether a function is one, whatever its arguments.
bool known_unsafe(std::string_view function);

// What a call does with a stream: queues work that a graph can take, or other work, or asks about or waits for what is
// queued.
enum class Use { Node, NoNode, Wait };
CUresult admit(const std::shared_ptr<Stream>& stream, Use use);
// The same for a question about an event or waiting for it, and for waiting for all of a context.
CUresult admit(const Event& event);
CUresult admit(const Context& context);

// Whether the stream takes part in a capture.
bool capturing(const std::shared_ptr<Stream>& stream);

// Both return whether the stream is being captured; if so, the call is complete.
bool record_in_capture(const std::shared_ptr<Stream>& stream, Event& event);
bool wait_in_capture(const std::shared_ptr<Stream>& stream, const Event& event, CUresult& result);

// For a stream that the program destroys, and for all of a context that ends.
void leave_capture(const std::shared_ptr<Stream>& stream);
void end_captures(const Context& context);

}  // namespace vgpu::cuda
