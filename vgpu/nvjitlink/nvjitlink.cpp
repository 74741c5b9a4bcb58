// nvJitLink for the virtual GPUs: its interface over the linker of their driver. NVIDIA's makes machine code, which
// they do not run. The reference is the nvJitLink documentation of CUDA 13.0.
//
// The version that it says is 12.2, the last before nvJitLink took the link-time-optimisation format of NVVM from the
// compiler in the program: programs that ask (numba-cuda, cuda.core) then give it PTX.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <dlfcn.h>

#include "vgpu/private.h"

namespace {

enum Result {  // nvJitLinkResult
    kSuccess = 0,
    kUnrecognizedOption = 1,
    kMissingArch = 2,
    kInvalidInput = 3,
    kPtxCompile = 4,
    kInternal = 6,
    kUnrecognizedInput = 8,
};
enum Input {
    kCubin = 1,
    kPtx = 2,
    kLtoIr = 3,
    kFatbin = 4,
    kObject = 5,
    kLibrary = 6,
    kAny = 10
};  // nvJitLinkInputType

constexpr int kInvalidPtx = 218, kUnsupportedPtx = 222;  // CUresult

// The driver's functions. The library is loaded when a program links, since this one is loaded into programs that
// never do.
struct Driver {
    decltype(&vgpu_linker_new) create = nullptr;
    decltype(&vgpu_linker_delete) destroy = nullptr;
    decltype(&vgpu_linker_add) add = nullptr;
    decltype(&vgpu_linker_complete) complete = nullptr;
    decltype(&vgpu_linker_log) log = nullptr;
    decltype(&vgpu_linker_cubin) cubin = nullptr;
};

template <typename F>
void find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
}

const Driver& driver() {
    static const Driver found = [] {
        Driver all;
        void* const library = dlopen("libcuda.so.1", RTLD_NOW);
        if (library == nullptr)
            return all;
        find(library, "vgpu_linker_new", all.create);
        find(library, "vgpu_linker_delete", all.destroy);
        find(library, "vgpu_linker_add", all.add);
        find(library, "vgpu_linker_complete", all.complete);
        find(library, "vgpu_linker_log", all.log);
        find(library, "vgpu_linker_cubin", all.cubin);
        return all;
    }();
    return found;
}

// Those that the documentation names. What they ask of machine code, PTX does not have.
bool known(std::string_view option) {
    for (const std::string_view name : {"-maxrregcount=",
                                        "-time",
                                        "-verbose",
                                        "-lto",
                                        "-ptx",
                                        "-O",
                                        "-g",
                                        "-lineinfo",
                                        "-ftz=",
                                        "-prec-div=",
                                        "-prec-sqrt=",
                                        "-fma=",
                                        "-kernels-used=",
                                        "-variables-used=",
                                        "-optimize-unused-variables",
                                        "-Xptxas=",
                                        "-Xnvvm=",
                                        "-split-compile=",
                                        "-split-compile-extended=",
                                        "-jump-table-density=",
                                        "-no-cache",
                                        "-device-stack-protector"})
        if (option.starts_with(name))
            return true;
    return false;
}

// The driver's number of the kind of input, as vgpu_linker_add takes it. False: virtual GPUs have no use for it.
bool type_of(int input, int& type) {
    switch (input) {
        case kCubin:
            type = 0;
            return true;
        case kPtx:
            type = 1;
            return true;
        case kFatbin:
            type = 2;
            return true;
        case kObject:
            type = 3;
            return true;
        case kLibrary:
            type = 4;
            return true;
        case kAny:
            type = -1;
            return true;
        default:
            return false;
    }
}

Result result_of(int driver_result) {
    if (driver_result == 0)
        return kSuccess;
    return driver_result == kInvalidPtx || driver_result == kUnsupportedPtx ? kPtxCompile : kInvalidInput;
}

}  // namespace

struct nvJitLink {
    vgpu_linker* linker = nullptr;
    std::string errors;  // of this library, before the driver's

    std::string log() const { return errors + driver().log(linker); }
};

#define VGPU_NVJITLINK extern "C" __attribute__((visibility("default")))

VGPU_NVJITLINK int nvJitLinkCreate(nvJitLink** handle, std::uint32_t count, const char* const* options) noexcept {
    if (handle == nullptr || (count != 0 && options == nullptr))
        return kInvalidInput;
    if (driver().create == nullptr || driver().cubin == nullptr)
        return kInternal;  // the libcuda.so.1 of this process is not the virtual GPUs'
    int architecture = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (std::sscanf(options[i], "-arch=sm_%d", &architecture) == 1 ||
            std::sscanf(options[i], "-arch=compute_%d", &architecture) == 1)
            continue;
        if (!known(options[i]))
            return kUnrecognizedOption;
    }
    if (architecture == 0)
        return kMissingArch;
    *handle = new nvJitLink{driver().create(architecture), {}};
    return kSuccess;
}

VGPU_NVJITLINK int nvJitLinkDestroy(nvJitLink** handle) noexcept {
    if (handle == nullptr || *handle == nullptr)
        return kInvalidInput;
    driver().destroy((*handle)->linker);
    delete *handle;
    *handle = nullptr;
    return kSuccess;
}

VGPU_NVJITLINK int nvJitLinkAddData(nvJitLink* handle, int input, const void* data, std::size_t bytes,
                                    const char* name) noexcept {
    if (handle == nullptr || data == nullptr)
        return kInvalidInput;
    const char* const known_as = name == nullptr ? "" : name;
    int type = 0;
    if (!type_of(input, type)) {
        handle->errors +=
            std::string("error   : ") + known_as + ": " +
            (input == kLtoIr ? "code for link-time optimisation, of which virtual GPUs have no compiler: give PTX"
                             : "a kind of input that is not known") +
            "\n";
        return kUnrecognizedInput;
    }
    return result_of(driver().add(handle->linker, type, data, bytes, known_as));
}

VGPU_NVJITLINK int nvJitLinkAddFile(nvJitLink* handle, int input, const char* path) noexcept {
    if (handle == nullptr || path == nullptr)
        return kInvalidInput;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        handle->errors += std::string("error   : ") + path + ": cannot be read\n";
        return kInvalidInput;
    }
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    return nvJitLinkAddData(handle, input, bytes.data(), bytes.size(), path);
}

VGPU_NVJITLINK int nvJitLinkComplete(nvJitLink* handle) noexcept {
    return handle == nullptr ? kInvalidInput : result_of(driver().complete(handle->linker));
}

VGPU_NVJITLINK int nvJitLinkGetLinkedCubinSize(nvJitLink* handle, std::size_t* bytes) noexcept {
    if (handle == nullptr || bytes == nullptr)
        return kInvalidInput;
    driver().cubin(handle->linker, bytes);
    return *bytes == 0 ? kInvalidInput : kSuccess;
}

VGPU_NVJITLINK int nvJitLinkGetLinkedCubin(nvJitLink* handle, void* cubin) noexcept {
    if (handle == nullptr || cubin == nullptr)
        return kInvalidInput;
    std::size_t bytes = 0;
    const void* const linked = driver().cubin(handle->linker, &bytes);
    if (bytes == 0)
        return kInvalidInput;
    std::memcpy(cubin, linked, bytes);
    return kSuccess;
}

// PTX comes of code for link-time optimisation alone, of which there is none here.
VGPU_NVJITLINK int nvJitLinkGetLinkedPtxSize(nvJitLink*, std::size_t*) noexcept {
    return kInvalidInput;
}

VGPU_NVJITLINK int nvJitLinkGetLinkedPtx(nvJitLink*, char*) noexcept {
    return kInvalidInput;
}

VGPU_NVJITLINK int nvJitLinkGetErrorLogSize(nvJitLink* handle, std::size_t* bytes) noexcept {
    if (handle == nullptr || bytes == nullptr)
        return kInvalidInput;
    *bytes = handle->log().size() + 1;
    return kSuccess;
}

VGPU_NVJITLINK int nvJitLinkGetErrorLog(nvJitLink* handle, char* text) noexcept {
    if (handle == nullptr || text == nullptr)
        return kInvalidInput;
    const std::string log = handle->log();
    std::memcpy(text, log.c_str(), log.size() + 1);
    return kSuccess;
}

VGPU_NVJITLINK int nvJitLinkGetInfoLogSize(nvJitLink* handle, std::size_t* bytes) noexcept {
    if (handle == nullptr || bytes == nullptr)
        return kInvalidInput;
    *bytes = 1;
    return kSuccess;
}

VGPU_NVJITLINK int nvJitLinkGetInfoLog(nvJitLink* handle, char* text) noexcept {
    if (handle == nullptr || text == nullptr)
        return kInvalidInput;
    *text = '\0';
    return kSuccess;
}

VGPU_NVJITLINK int nvJitLinkVersion(unsigned* major, unsigned* minor) noexcept {
    if (major == nullptr || minor == nullptr)
        return kInvalidInput;
    *major = 12;
    *minor = 2;
    return kSuccess;
}

// The names that nvJitLink.h of each release gives the functions, so that programs built with it find them.
#define VGPU_ALIAS(function, version) \
    VGPU_NVJITLINK __attribute__((alias(#function))) decltype(function) __##function##_##version;
#define VGPU_ALL(version)                            \
    VGPU_ALIAS(nvJitLinkCreate, version)             \
    VGPU_ALIAS(nvJitLinkDestroy, version)            \
    VGPU_ALIAS(nvJitLinkAddData, version)            \
    VGPU_ALIAS(nvJitLinkAddFile, version)            \
    VGPU_ALIAS(nvJitLinkComplete, version)           \
    VGPU_ALIAS(nvJitLinkGetLinkedCubinSize, version) \
    VGPU_ALIAS(nvJitLinkGetLinkedCubin, version)     \
    VGPU_ALIAS(nvJitLinkGetLinkedPtxSize, version)   \
    VGPU_ALIAS(nvJitLinkGetLinkedPtx, version)       \
    VGPU_ALIAS(nvJitLinkGetErrorLogSize, version)    \
    VGPU_ALIAS(nvJitLinkGetErrorLog, version)        \
    VGPU_ALIAS(nvJitLinkGetInfoLogSize, version)     \
    VGPU_ALIAS(nvJitLinkGetInfoLog, version)
VGPU_ALL(12_0)
VGPU_ALL(12_1)
VGPU_ALL(12_2)
VGPU_ALL(12_3)
VGPU_ALL(12_4)
VGPU_ALL(12_5)
VGPU_ALL(12_6)
VGPU_ALL(12_8)
VGPU_ALL(12_9)
VGPU_ALL(13_0)
