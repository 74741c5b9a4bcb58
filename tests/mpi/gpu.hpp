// Memory of every kind for the MPI tests, by the CUDA driver that is found at run time: the virtual one or a real one.
// Test programs only.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace gpu {

enum class Kind { kHost, kDevice, kManaged, kPinned };
inline constexpr Kind kKinds[] = {Kind::kHost, Kind::kDevice, Kind::kManaged, Kind::kPinned};
inline const char* name(Kind kind) {
    constexpr const char* kNames[] = {"host", "device", "managed", "pinned"};
    return kNames[static_cast<int>(kind)];
}

// The few driver functions that a test needs. A failure ends the test: it is no result.
class Driver {
  public:
    static Driver& get() {
        static Driver driver;
        return driver;
    }

    int devices = 0;

    void use(int device) {
        void* context = nullptr;
        check("cuDevicePrimaryCtxRetain", call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device));
        check("cuCtxSetCurrent", call<int(void*)>("cuCtxSetCurrent")(context));
    }
    void* allocate(Kind kind, std::size_t bytes) {
        void* memory = nullptr;
        if (kind == Kind::kDevice)
            check("cuMemAlloc", call<int(void**, std::size_t)>("cuMemAlloc_v2")(&memory, bytes));
        else if (kind == Kind::kManaged)
            check("cuMemAllocManaged",
                  call<int(void**, std::size_t, unsigned)>("cuMemAllocManaged")(&memory, bytes, 1));
        else if (kind == Kind::kPinned)
            check("cuMemHostAlloc", call<int(void**, std::size_t, unsigned)>("cuMemHostAlloc")(&memory, bytes, 0));
        else
            memory = std::malloc(bytes);
        return memory;
    }
    void release(Kind kind, void* memory) {
        if (kind == Kind::kHost)
            std::free(memory);
        else if (kind == Kind::kPinned)
            check("cuMemFreeHost", call<int(void*)>("cuMemFreeHost")(memory));
        else
            check("cuMemFree", call<int(void*)>("cuMemFree_v2")(memory));
    }
    void copy(void* to, const void* from, std::size_t bytes) {
        check("cuMemcpy", call<int(void*, const void*, std::size_t)>("cuMemcpy")(to, from, bytes));
    }
    void synchronize() { check("cuCtxSynchronize", call<int()>("cuCtxSynchronize")()); }

    template <typename F>
    F* call(const char* symbol) {
        void* found = dlsym(handle_, symbol);
        if (found == nullptr) {
            std::fprintf(stderr, "the CUDA driver has no %s\n", symbol);
            std::_Exit(99);
        }
        return reinterpret_cast<F*>(found);
    }
    static void check(const char* what, int result) {
        if (result == 0)
            return;
        std::fprintf(stderr, "%s: CUDA error %d\n", what, result);
        std::_Exit(99);
    }

  private:
    Driver() : handle_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
        if (handle_ == nullptr) {
            std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
            std::_Exit(77);  // the test frame's "skipped"
        }
        check("cuInit", call<int(unsigned)>("cuInit")(0));
        check("cuDeviceGetCount", call<int(int*)>("cuDeviceGetCount")(&devices));
    }
    void* handle_;
};

// A block of memory of some kind, filled from and read to host memory.
class Memory {
  public:
    Memory(Kind kind, std::size_t bytes)
        : kind_(kind),
          bytes_(bytes),
          data_(kind == Kind::kHost ? std::malloc(bytes == 0 ? 1 : bytes)
                                    : Driver::get().allocate(kind, bytes == 0 ? 1 : bytes)) {}
    Memory(Kind kind, const std::vector<std::byte>& content) : Memory(kind, content.size()) { write(content); }
    Memory(Memory&& other) noexcept
        : kind_(other.kind_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
    Memory& operator=(Memory&&) = delete;
    ~Memory() {
        if (kind_ == Kind::kHost)  // a rank without driver has this kind
            std::free(data_);
        else if (data_ != nullptr)
            Driver::get().release(kind_, data_);
    }

    void write(const std::vector<std::byte>& content) {
        if (kind_ == Kind::kHost)
            std::memcpy(data_, content.data(), content.size());
        else
            Driver::get().copy(data_, content.data(), content.size());
    }
    std::size_t size() const { return bytes_; }
    void* address() const { return data_; }
    std::vector<std::byte> read() const {
        std::vector<std::byte> content(bytes_);
        if (kind_ == Kind::kHost)
            std::memcpy(content.data(), data_, bytes_);
        else
            Driver::get().copy(content.data(), data_, bytes_);
        return content;
    }
    std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
    Kind kind() const { return kind_; }

  private:
    Kind kind_;
    std::size_t bytes_;
    void* data_;
};

}  // namespace gpu
