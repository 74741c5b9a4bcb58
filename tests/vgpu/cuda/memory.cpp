// Device memory: out of the host's reach, within a limit that all processes of a device share.
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <string>

#include "../../random_seed.hpp"
#include "fixture.hpp"
#include "process.hpp"

using vgpu::test::OwnDevices;
using vgpu::test::Process;
using vgpu::test::run;

class Memory : public vgpu::test::WithContext {};
class MemoryChild : public vgpu::test::WithContext {};

TEST_F(MemoryChild, DISABLED_host_reads_device_memory) {
    const auto* pointer = reinterpret_cast<const volatile int*>(allocate(4096));
    std::cout << *pointer;
}

TEST_F(MemoryChild, DISABLED_host_writes_device_memory) {
    *reinterpret_cast<volatile int*>(allocate(4096)) = 1;
}

TEST_F(MemoryChild, DISABLED_host_copies_device_memory) {
    std::vector<char> here(1 << 20);
    memcpy(here.data(), reinterpret_cast<const void*>(allocate(1 << 20)), here.size());
    std::cout << here[5];
}

TEST_F(Memory, A_host_access_to_device_memory_is_a_segmentation_fault) {
    for (const char* test :
         {"MemoryChild.DISABLED_host_reads_device_memory", "MemoryChild.DISABLED_host_writes_device_memory",
          "MemoryChild.DISABLED_host_copies_device_memory"}) {
        const auto ended = run(test);
        EXPECT_TRUE(ended.killed_by(SIGSEGV)) << test << " ended with " << ended.status << "\n" << ended.output;
    }
}

TEST_F(Memory, Allocations_are_aligned_disjoint_and_keep_their_content) {
    const unsigned seed = random_seed();
    SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    struct Block {
        std::size_t bytes;
        unsigned char value;
    };
    std::map<CUdeviceptr, Block> live;
    for (int step = 0; step < 600; ++step) {
        if (random() % 3 != 0 || live.empty()) {
            const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 3000000 : 3000);
            const CUdeviceptr pointer = allocate(bytes);
            ASSERT_EQ(pointer % 256, 0u);
            const auto next = live.lower_bound(pointer);
            ASSERT_TRUE(next == live.end() || pointer + bytes <= next->first);
            ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= pointer);
            const auto value = static_cast<unsigned char>(random());
            ASSERT_EQ(cuMemsetD8(pointer, value, bytes), CUDA_SUCCESS);
            live[pointer] = {bytes, value};
        } else {
            const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
            const auto content = read<unsigned char>(victim->first, victim->second.bytes);
            ASSERT_EQ(content, std::vector<unsigned char>(victim->second.bytes, victim->second.value));
            ASSERT_EQ(cuMemFree(victim->first), CUDA_SUCCESS);
            live.erase(victim);
        }
    }
}

TEST_F(Memory, Bad_requests_are_invalid_values) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(nullptr, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
    pointer = allocate(1024);
    EXPECT_EQ(cuMemFree(pointer + 512), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFreeHost(&pointer), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, Pitch_holds_the_width_and_suits_every_element) {
    CUdeviceptr pointer = 0;
    std::size_t pitch = 0;
    ASSERT_EQ(cuMemAllocPitch(&pointer, &pitch, 1000, 7, 16), CUDA_SUCCESS);
    EXPECT_GE(pitch, 1000u);
    EXPECT_EQ(pitch % 16, 0u);
    std::size_t bytes = 0;
    EXPECT_EQ(cuMemGetAddressRange(nullptr, &bytes, pointer), CUDA_SUCCESS);
    EXPECT_EQ(bytes, pitch * 7);
    EXPECT_EQ(cuMemAllocPitch(&pointer, &pitch, 1000, 7, 5), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, Freed_memory_goes_back_to_the_system) {
    const auto resident = [] {
        std::size_t pages = 0;
        FILE* const file = fopen("/proc/self/statm", "r");
        EXPECT_EQ(fscanf(file, "%*s %zu", &pages), 1);
        fclose(file);
        return pages * 4096;
    };
    const std::size_t before = resident();
    for (int i = 0; i < 20; ++i) {
        const CUdeviceptr pointer = allocate(32 << 20);
        ASSERT_EQ(cuMemsetD8(pointer, 1, 32 << 20), CUDA_SUCCESS);
        ASSERT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    }
    EXPECT_LT(resident(), before + (64u << 20));
}

TEST_F(MemoryChild, DISABLED_limit_in_one_process) {
    std::size_t free = 0;
    std::size_t total = 0;
    ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    EXPECT_EQ(total, 64u << 20);
    EXPECT_EQ(free, total);
    std::size_t bytes = 0;
    EXPECT_EQ(cuDeviceTotalMem(&bytes, 0), CUDA_SUCCESS);
    EXPECT_EQ(bytes, total);
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc(&pointer, (64u << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAlloc(&pointer, std::size_t{1} << 62), CUDA_ERROR_OUT_OF_MEMORY);
    const CUdeviceptr most = allocate(60u << 20);
    EXPECT_EQ(cuMemAlloc(&pointer, 5u << 20), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAllocAsync(&pointer, 5u << 20, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
    ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    EXPECT_EQ(free, 4u << 20);
    EXPECT_EQ(cuMemFree(most), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(allocate(64u << 20)), CUDA_SUCCESS);
}

TEST_F(Memory, More_than_the_device_has_is_out_of_memory) {
    VIRTUAL_ONLY("VGPU_MEMORY");
    const OwnDevices devices(1);
    const auto ended =
        run("MemoryChild.DISABLED_limit_in_one_process", {{"VGPU_MEMORY", "64M"}, {"VGPU_TOPOLOGY", devices.file()}});
    EXPECT_TRUE(ended.passed()) << ended.output;
}

// Allocates 40 MiB and prints whether that succeeded; once more for each "again" that it reads.
TEST_F(MemoryChild, DISABLED_holds_forty_megabytes) {
    std::string line;
    do {
        CUdeviceptr pointer = 0;
        const CUresult result = cuMemAlloc(&pointer, 40u << 20);
        std::size_t free = 0;
        std::size_t total = 0;
        ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
        std::cout << "result " << result << "\nfree " << (free >> 20) << std::endl;
        std::getline(std::cin, line);
    } while (line == "again");
}

TEST_F(Memory, The_limit_is_one_for_all_processes_on_a_device_and_the_dead_hold_nothing) {
    VIRTUAL_ONLY("VGPU_MEMORY");
    const OwnDevices devices(1);
    const vgpu::test::Environment environment = {{"VGPU_MEMORY", "64M"}, {"VGPU_TOPOLOGY", devices.file()}};
    const char* const holder = "MemoryChild.DISABLED_holds_forty_megabytes";
    Process first(holder, environment);
    EXPECT_EQ(first.await("result "), "0");
    EXPECT_EQ(first.await("free "), "24");
    Process second(holder, environment);
    EXPECT_EQ(second.await("result "), std::to_string(CUDA_ERROR_OUT_OF_MEMORY));
    EXPECT_EQ(second.await("free "), "24");
    vgpu::test::Environment elsewhere = environment;
    elsewhere["VGPU_NODE"] = "elsewhere";
    Process apart(holder, elsewhere);
    EXPECT_EQ(apart.await("result "), "0") << "another node's device";
    apart.tell("end");
    apart.finish();
    first.kill(SIGKILL);
    first.finish();
    second.tell("again");
    EXPECT_EQ(second.await("result "), "0");
    EXPECT_EQ(second.await("free "), "24");
    second.kill(SIGKILL);
    second.finish();
    Process third(holder, environment);
    EXPECT_EQ(third.await("result "), "0");
    third.tell("end");
    third.finish();
    EXPECT_EQ(third.status, 0) << third.output;
}

TEST_F(MemoryChild, DISABLED_tells_its_ledger) {
    allocate(1 << 20);
    CUuuid id{};
    ASSERT_EQ(cuDeviceGetUuid(&id, 0), CUDA_SUCCESS);
    char first[9];
    const auto* bytes = reinterpret_cast<const unsigned char*>(id.bytes);
    snprintf(first, sizeof first, "%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
    const auto ledgers = [&] {
        int count = 0;
        for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
            count += file.path().filename().string().find(std::string("GPU-") + first) != std::string::npos ? 1 : 0;
        return count;
    };
    EXPECT_EQ(ledgers(), 1);
    std::cout << "device " << first << std::endl;
}

TEST_F(Memory, Nothing_is_left_in_the_file_system) {
    VIRTUAL_ONLY("ledgers in /dev/shm");
    const OwnDevices devices(1);
    const auto ended = run("MemoryChild.DISABLED_tells_its_ledger", {{"VGPU_TOPOLOGY", devices.file()}});
    ASSERT_TRUE(ended.passed()) << ended.output;
    const std::string device = ended.output.substr(ended.output.find("device ") + 7, 8);
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
        EXPECT_EQ(file.path().filename().string().find("GPU-" + device), std::string::npos) << file.path();
}

TEST_F(Memory, Pooled_memory_is_known_until_freed_and_counted_by_its_pool) {
    CUmemoryPool pool = nullptr;
    ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    cuuint64_t used = 99;
    ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
    EXPECT_EQ(used, 0u);
    const CUstream work = stream();
    CUdeviceptr pointer = 0;
    ASSERT_EQ(cuMemAllocAsync(&pointer, 1000, work), CUDA_SUCCESS);
    CUmemoryPool owner = nullptr;
    EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer), CUDA_SUCCESS);
    EXPECT_EQ(owner, pool);
    const unsigned yes = 1;
    EXPECT_EQ(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer), CUDA_SUCCESS);
    ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
    EXPECT_EQ(used, 1000u);
    ASSERT_EQ(cuMemsetD8Async(pointer, 7, 1000, work), CUDA_SUCCESS);
    std::vector<unsigned char> here(1000);
    ASSERT_EQ(cuMemcpyDtoHAsync(here.data(), pointer, 1000, work), CUDA_SUCCESS);
    ASSERT_EQ(cuMemFreeAsync(pointer, work), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(pointer, 7, 1000, work), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(here, std::vector<unsigned char>(1000, 7));
    ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
    EXPECT_EQ(used, 0u);
}

TEST_F(Memory, Host_memory_by_handle_is_the_hosts_and_the_devices_once_each_has_access) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    std::size_t unit = 0, free_before = 0, free_after = 0, total = 0;
    ASSERT_EQ(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    ASSERT_EQ(cuMemGetInfo(&free_before, &total), CUDA_SUCCESS);
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    ASSERT_EQ(cuMemCreate(&handle, unit, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemGetInfo(&free_after, &total), CUDA_SUCCESS);
    EXPECT_GT(free_after + unit, free_before) << "it is no memory of the device";
    CUdeviceptr base = 0, again = 0;
    ASSERT_EQ(cuMemAddressReserve(&base, unit, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(base, unit, 0, handle, 0), CUDA_SUCCESS);
    const CUmemAccessDesc host = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemAccessDesc device = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_EQ(cuMemsetD8(base, 1, unit), CUDA_ERROR_INVALID_VALUE) << "no access yet";
    ASSERT_EQ(cuMemSetAccess(base, unit, &device, 1), CUDA_SUCCESS);
    unsigned long long flags = 99;
    ASSERT_EQ(cuMemGetAccess(&flags, &host.location, base), CUDA_SUCCESS);
    EXPECT_EQ(flags, 0u);
    ASSERT_EQ(cuMemSetAccess(base, unit, &host, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuMemGetAccess(&flags, &host.location, base), CUDA_SUCCESS);
    EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    auto* const here = reinterpret_cast<int*>(base);
    here[3] = 41;
    EXPECT_EQ(read<int>(base, 4)[3], 41);
    ASSERT_EQ(cuMemsetD32(base, 7, 4), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(here[3], 7);
    unsigned type = 0;
    ASSERT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base), CUDA_SUCCESS);
    EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));

    // What imports it knows that it is the host's.
    int file = -1;
    ASSERT_EQ(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_SUCCESS);
    close(file);
    ASSERT_EQ(cuMemAddressReserve(&again, unit, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(again, unit, 0, imported, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemSetAccess(again, unit, &host, 1), CUDA_SUCCESS);
    EXPECT_EQ(reinterpret_cast<int*>(again)[3], 7);
    for (const auto& [pointer, owner] : {std::pair{base, handle}, std::pair{again, imported}}) {
        EXPECT_EQ(cuMemUnmap(pointer, unit), CUDA_SUCCESS);
        EXPECT_EQ(cuMemRelease(owner), CUDA_SUCCESS);
    }
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], here, sizeof *here), -1) << "the kernel can still read it";
    close(ends[0]);
    close(ends[1]);

    // Memory of a device is not the host's.
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    ASSERT_EQ(cuMemCreate(&handle, unit, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(base, unit, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemSetAccess(base, unit, &host, 1), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuMemUnmap(base, unit), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    for (const CUdeviceptr pointer : {base, again})
        EXPECT_EQ(cuMemAddressFree(pointer, unit), CUDA_SUCCESS);
}

TEST_F(Memory, Physical_memory_maps_into_reserved_addresses_and_several_mappings_are_one_range) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    std::size_t unit = 0;
    ASSERT_EQ(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    CUmemGenericAllocationHandle handles[2];
    CUdeviceptr base = 0;
    ASSERT_EQ(cuMemAddressReserve(&base, 2 * unit, 0, 0, 0), CUDA_SUCCESS);
    for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(cuMemCreate(&handles[i], unit, &properties, 0), CUDA_SUCCESS);
        ASSERT_EQ(cuMemMap(base + static_cast<unsigned>(i) * unit, unit, 0, handles[i], 0), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuMemCreate(handles, unit + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD8(base, 1, unit), CUDA_ERROR_INVALID_VALUE);  // no access yet
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ASSERT_EQ(cuMemSetAccess(base, 2 * unit, &access, 1), CUDA_SUCCESS);
    const auto values = numbers(2 * unit / sizeof(int));
    ASSERT_EQ(cuMemcpyHtoD(base, values.data(), 2 * unit), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(base, values.size()), values);
    EXPECT_EQ(cuMemsetD8(base + 4, 1, 2 * unit), CUDA_ERROR_INVALID_VALUE);

    // The same physical memory, exported and imported, at another address.
    int file = -1;
    ASSERT_EQ(cuMemExportToShareableHandle(&file, handles[1], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_SUCCESS);
    CUmemGenericAllocationHandle imported = 0;
    ASSERT_EQ(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_SUCCESS);
    close(file);
    CUdeviceptr again = 0;
    ASSERT_EQ(cuMemAddressReserve(&again, unit, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(again, unit, 0, imported, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemSetAccess(again, unit, &access, 1), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(again, 3), numbers(3, static_cast<int>(unit / sizeof(int))));

    EXPECT_EQ(cuMemAddressFree(base, 2 * unit), CUDA_ERROR_INVALID_VALUE);  // still mapped
    EXPECT_EQ(cuMemUnmap(base, 2 * unit), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(again, unit), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8(base, 1, unit), CUDA_ERROR_INVALID_VALUE);
    for (const auto handle : {handles[0], handles[1], imported})
        EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(base, 2 * unit), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(again, unit), CUDA_SUCCESS);
    std::size_t free = 0;
    std::size_t total = 0;
    ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
}
