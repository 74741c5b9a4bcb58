// Device variables: their addresses and copies to and from them.
#include "vgpu/cudart/copy.hpp"
#include "vgpu/cudart/program.hpp"

using namespace vgpu::cudart;

namespace {

// The address of `bytes` at `offset` inside a variable. A copy beyond its end is an invalid value.
cudaError_t inside(const void* symbol, size_t bytes, size_t offset, void*& address) {
    VariableLocation location;
    if (const cudaError_t result = find_variable(symbol, location); result != cudaSuccess)
        return result;
    if (offset > location.bytes || bytes > location.bytes - offset)
        return cudaErrorInvalidValue;
    address = host_view(location.address + offset);
    return cudaSuccess;
}

// A symbol is device memory: one end of the copy is known, and the kind must agree with it.
bool to_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}
bool from_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

}  // namespace

VGPU_CUDART_API cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
    return api("cudaGetSymbolAddress", Needs::kContext, [&]() -> cudaError_t {
        return address == nullptr ? cudaErrorInvalidValue : inside(symbol, 0, 0, *address);
    });
}

VGPU_CUDART_API cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
    return api("cudaGetSymbolSize", Needs::kContext, [&]() -> cudaError_t {
        VariableLocation location;
        if (bytes == nullptr)
            return cudaErrorInvalidValue;
        const cudaError_t result = find_variable(symbol, location);
        if (result == cudaSuccess)
            *bytes = location.bytes;
        return result;
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                                               cudaMemcpyKind kind) {
    return api("cudaMemcpyToSymbol", Needs::kContext, [&]() -> cudaError_t {
        void* address = nullptr;
        if (!to_device(kind))
            return cudaErrorInvalidMemcpyDirection;
        const cudaError_t result = inside(symbol, bytes, offset, address);
        return result != cudaSuccess ? result : copy_now(address, from, bytes, kind);
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                                    cudaMemcpyKind kind, cudaStream_t stream) {
    return api_on_stream("cudaMemcpyToSymbolAsync", stream, [&]() -> cudaError_t {
        void* address = nullptr;
        if (!to_device(kind))
            return cudaErrorInvalidMemcpyDirection;
        const cudaError_t result = inside(symbol, bytes, offset, address);
        return result != cudaSuccess ? result : copy_on(address, from, bytes, kind, stream);
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                                 cudaMemcpyKind kind) {
    return api("cudaMemcpyFromSymbol", Needs::kContext, [&]() -> cudaError_t {
        void* address = nullptr;
        if (!from_device(kind))
            return cudaErrorInvalidMemcpyDirection;
        const cudaError_t result = inside(symbol, bytes, offset, address);
        return result != cudaSuccess ? result : copy_now(to, address, bytes, kind);
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                                      cudaMemcpyKind kind, cudaStream_t stream) {
    return api_on_stream("cudaMemcpyFromSymbolAsync", stream, [&]() -> cudaError_t {
        void* address = nullptr;
        if (!from_device(kind))
            return cudaErrorInvalidMemcpyDirection;
        const cudaError_t result = inside(symbol, bytes, offset, address);
        return result != cudaSuccess ? result : copy_on(to, address, bytes, kind, stream);
    });
}
