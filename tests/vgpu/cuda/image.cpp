// What drivers of several versions take of device code: PTX by its version, cubins by their ELF interface, fat binaries
// by compression too. The expected answers are the PTX ISA's table of releases and what cuda.h says of each error.
#include <elf.h>

#include <array>
#include <cstring>
#include <string>

#include "fixture.hpp"
#include "process.hpp"

namespace {

constexpr int kPtx = 1, kElf = 2;
constexpr std::uint64_t kPlain = 0x11, kLz4 = 0x2011, kZstd = 0x8011;

std::string ptx(const char* version, int target = 75) {
    return std::string("//\n// Generated\n//\n\n.version ") + version + "\n.target sm_" + std::to_string(target) +
           "\n.address_size 64\n.visible .entry kernel(...)\n";
}

std::string cubin(int target, int interface) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_ABIVERSION] = static_cast<unsigned char>(interface);
    header.e_machine = 190;  // EM_CUDA
    header.e_flags = static_cast<unsigned>(interface >= 8 ? target << 8 : target);
    header.e_shoff = sizeof header + 64;
    std::string bytes(sizeof header + 64, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.replace(sizeof header, 6, "kernel");
    return bytes;
}

struct Part {
    int kind;
    int target;
    std::array<int, 2> version;  // of PTX; {1, ELF interface}
    std::uint64_t flags;
    std::string content;
};

std::string fatbin(const std::vector<Part>& parts) {
    const auto put = [](std::string& bytes, std::uint64_t value, int size) {
        for (int i = 0; i < size; ++i)
            bytes += static_cast<char>(value >> (8 * i));
    };
    std::string members;
    for (const Part& part : parts) {
        put(members, static_cast<unsigned>(part.kind), 2);
        put(members, 0x101, 2);
        put(members, 64, 4);
        put(members, part.content.size(), 8);
        put(members, part.flags == kPlain ? 0 : part.content.size(), 4);
        put(members, 0, 4);
        put(members, static_cast<unsigned>(part.version[1]), 2);
        put(members, static_cast<unsigned>(part.version[0]), 2);
        put(members, static_cast<unsigned>(part.target), 4);
        put(members, 0, 8);
        put(members, part.flags, 8);
        put(members, 0, 16);
        members += part.content;
    }
    std::string bytes;
    put(bytes, 0xBA55ED50, 4);
    put(bytes, 1, 2);
    put(bytes, 16, 2);
    put(bytes, members.size(), 8);
    return bytes + members;
}

Part ptx_part(const char* version, std::array<int, 2> numbers, std::uint64_t flags = kPlain) {
    return {kPtx, 75, numbers, flags, flags == kPlain ? ptx(version) + '\0' : "compressed"};
}

Part cubin_part(int target, int interface, std::uint64_t flags = kPlain) {
    return {kElf, target, {1, interface}, flags, flags == kPlain ? cubin(target, interface) : "compressed"};
}

struct Case {
    const char* name;
    std::string image;
    CUresult result;
};

class Image : public vgpu::test::WithContext {
  protected:
    // The virtual GPUs are of compute capability 9.0.
    static void expect(const std::vector<Case>& cases) {
        for (const Case& given : cases) {
            CUmodule module = nullptr;
            EXPECT_EQ(cuModuleLoadData(&module, given.image.c_str()), given.result) << given.name;
            if (module != nullptr) {
                EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
            }
            CUlibrary library = nullptr;
            EXPECT_EQ(cuLibraryLoadData(&library, given.image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                      given.result)
                << given.name;
            if (library != nullptr) {
                EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
            }
        }
    }
    static int version() {
        int version = 0;
        EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
        return version;
    }
};
using ImageChild = Image;

// What any driver says, whatever its version.
std::vector<Case> on_all() {
    return {
        {"PTX 7.0", ptx("7.0"), CUDA_SUCCESS},
        {"PTX 8.0", ptx("8.0"), CUDA_SUCCESS},
        {"PTX for a newer GPU", ptx("7.0", 100), CUDA_ERROR_INVALID_PTX},
        {"no device code", "this is none", CUDA_ERROR_INVALID_IMAGE},
        {"CUDA 12's cubin", cubin(90, 7), CUDA_SUCCESS},
        {"another GPU's cubin", cubin(80, 7), CUDA_ERROR_NO_BINARY_FOR_GPU},
        {"another GPU's in a fat binary", fatbin({cubin_part(80, 7), cubin_part(100, 7)}),
         CUDA_ERROR_NO_BINARY_FOR_GPU},
        {"PTX beside another GPU's cubin", fatbin({ptx_part("8.0", {8, 0}), cubin_part(80, 7)}), CUDA_SUCCESS},
        {"compressed by LZ4", fatbin({cubin_part(90, 7, kLz4)}), CUDA_SUCCESS},
    };
}

TEST_F(ImageChild, DISABLED_driver_12_0) {
    EXPECT_EQ(version(), 12000);
    expect(on_all());
    expect({{"PTX 8.1", ptx("8.1"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
            {"PTX 9.0", ptx("9.0"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
            {"CUDA 13's cubin", cubin(90, 8), CUDA_ERROR_INVALID_IMAGE},
            {"CUDA 13's fat binary", fatbin({ptx_part("9.0", {9, 0}), cubin_part(90, 8)}), CUDA_ERROR_INVALID_IMAGE},
            {"its PTX, compressed by LZ4", fatbin({ptx_part("9.0", {9, 0}, kLz4)}), CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
            {"compressed by zstd", fatbin({cubin_part(90, 7, kZstd)}), CUDA_ERROR_INVALID_IMAGE}});
    void* newer = this;
    CUdriverProcAddressQueryResult status{};
    EXPECT_EQ(cuGetProcAddress_v2("cuCtxSetFlags", &newer, 13000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(newer, nullptr);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_EQ(cuGetProcAddress_v2("cuCtxGetId", &newer, 13000, 0, &status), CUDA_SUCCESS);
}

TEST_F(ImageChild, DISABLED_driver_12_4) {
    EXPECT_EQ(version(), 12040);
    expect(on_all());
    expect({{"PTX 8.4", ptx("8.4"), CUDA_SUCCESS},
            {"PTX 8.5", ptx("8.5"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
            {"CUDA 13's cubin", cubin(90, 8), CUDA_ERROR_INVALID_IMAGE},
            {"CUDA 13's, compressed by zstd", fatbin({cubin_part(90, 8, kZstd)}), CUDA_ERROR_INVALID_IMAGE},
            {"compressed by zstd", fatbin({cubin_part(90, 7, kZstd)}), CUDA_SUCCESS}});
}

TEST_F(ImageChild, DISABLED_driver_12_8) {
    EXPECT_EQ(version(), 12080);
    expect(on_all());
    expect({{"PTX 8.7", ptx("8.7"), CUDA_SUCCESS},
            {"PTX 8.8", ptx("8.8"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
            {"CUDA 13's cubin", cubin(90, 8), CUDA_ERROR_INVALID_IMAGE}});
}

TEST_F(ImageChild, DISABLED_driver_13_0) {
    EXPECT_EQ(version(), 13000);
    expect(on_all());
    expect({{"PTX 9.0", ptx("9.0"), CUDA_SUCCESS},
            {"PTX 9.1", ptx("9.1"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
            {"CUDA 13's cubin", cubin(90, 8), CUDA_SUCCESS},
            {"another GPU's of CUDA 13", cubin(80, 8), CUDA_ERROR_NO_BINARY_FOR_GPU},
            {"CUDA 13's, compressed by zstd", fatbin({cubin_part(90, 8, kZstd)}), CUDA_SUCCESS}});
}

TEST_F(Image, A_driver_takes_what_its_version_knows) {
    VIRTUAL_ONLY("VGPU_DRIVER");
    for (const auto& [driver, test] :
         {std::pair{"12.0", "12_0"}, {"12.4", "12_4"}, {"12.8", "12_8"}, {"13.0", "13_0"}}) {
        const auto ended =
            vgpu::test::run(std::string("ImageChild.DISABLED_driver_") + test, {{"VGPU_DRIVER", driver}});
        EXPECT_TRUE(ended.passed()) << ended.output;
    }
}

TEST_F(Image, The_compiler_says_what_it_does_not_take_in_the_room_that_it_is_given) {
    std::array<char, 200> log{};
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};
    void* values[] = {reinterpret_cast<void*>(log.size()), log.data()};
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadDataEx(&module, ptx("9.1").c_str(), 2, names, values), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT_STREQ(log.data(),
                 "ptxas application ptx input, line 5; fatal   : Unsupported .version 9.1; current version is '9.0'");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values[0]), std::strlen(log.data()));
    values[0] = reinterpret_cast<void*>(std::uintptr_t{6});
    EXPECT_EQ(cuModuleLoadDataEx(&module, ptx("9.1").c_str(), 2, names, values), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT_STREQ(log.data(), "ptxas");
}

TEST_F(Image, Names_that_are_not_in_it_are_not_found) {
    VIRTUAL_ONLY("images without code in them");
    for (const std::string& image : {fatbin({cubin_part(90, 8)}), fatbin({ptx_part("8.0", {8, 0})})}) {
        CUmodule module = nullptr;
        CUfunction function = nullptr;
        ASSERT_EQ(cuModuleLoadData(&module, image.data()), CUDA_SUCCESS);
        EXPECT_EQ(cuModuleGetFunction(&function, module, "kernel"), CUDA_SUCCESS);
        EXPECT_EQ(cuModuleGetFunction(&function, module, "absent"), CUDA_ERROR_NOT_FOUND);
    }
}

}  // namespace
