// Where memory of every kind lives, on virtual GPUs. The expected answers are the CUDA driver API's own definitions.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "virtual_gpus.hpp"

namespace {

using namespace swy::device;

void* as_pointer(CUdeviceptr address) {
    return reinterpret_cast<void*>(address);
}

std::uintptr_t as_number(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
}

// Primary context of device 0 current, device 1 with a context of its own, device 2 untouched.
class Memory : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_NE(VirtualGpus::library(), nullptr) << dlerror();
        ASSERT_TRUE(adopt_loaded_driver());
        before_init();
        MUST(cu(cuInit)(0));
        MUST(cu(cuDevicePrimaryCtxRetain)(&primary_, 0));
        MUST(cu(cuCtxSetCurrent)(primary_));
        other_ = VirtualGpus::make_context(1);
        ASSERT_NE(other_, nullptr);
    }

    static void before_init() {
        int host = 0;
        EXPECT_FALSE(on_device(&host));
        EXPECT_EQ(locate(&host).kind, Kind::kHost);
        EXPECT_EQ(device_count(), 0) << "cuInit is the program's to call";
    }

    void TearDown() override {
        CUcontext current = nullptr;
        MUST(cu(cuCtxGetCurrent)(&current));
        EXPECT_EQ(current, primary_) << "the caller's context has changed";
        EXPECT_FALSE(active(2)) << "a context was made on a device that the program does not use";
    }

    static bool active(int device) {
        unsigned flags = 0;
        int state = 0;
        EXPECT_EQ(cu(cuDevicePrimaryCtxGetState)(device, &flags, &state), CUDA_SUCCESS);
        return state != 0;
    }

    static CUcontext primary_;
    static CUcontext other_;
};
CUcontext Memory::primary_ = nullptr;
CUcontext Memory::other_ = nullptr;

void is_in(const void* address, Kind kind, int ordinal, Context context, bool primary, std::uintptr_t begin,
           std::size_t size) {
    EXPECT_EQ(on_device(address), kind >= Kind::kManaged);
    const Location location = locate(address);
    EXPECT_EQ(location.kind, kind);
    EXPECT_EQ(location.on_device(), kind >= Kind::kManaged);
    EXPECT_EQ(location.begin, begin);
    EXPECT_EQ(location.end, begin + size);
    if (kind >= Kind::kManaged) {
        EXPECT_EQ(location.ordinal, ordinal);
        EXPECT_EQ(location.context, context);
        EXPECT_EQ(location.primary, primary);
    }
}

void is_host(const void* address) {
    is_in(address, Kind::kHost, -1, nullptr, true, 0, 0);
}

TEST_F(Memory, Of_the_host_in_all_its_forms_is_the_hosts) {
    int stack = 0;
    static int data = 0;
    const std::vector<int> heap(1000);
    void* unreadable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    is_host(&stack);
    is_host(&data);
    is_host(heap.data());
    is_host(unreadable);
    is_host(nullptr);
    is_host(reinterpret_cast<void*>(1));  // MPI_IN_PLACE in Open MPI
    is_host(reinterpret_cast<void*>(~std::uintptr_t{0}));
    munmap(unreadable, 4096);
}

TEST_F(Memory, Of_a_device_is_known_from_its_first_to_its_last_byte) {
    constexpr std::size_t kSize = 1'000'003;
    CUdeviceptr address = 0;
    MUST(cu(cuMemAlloc)(&address, kSize));
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, kSize / 2, kSize - 1})
        is_in(as_pointer(address + offset), Kind::kDevice, 0, primary_, true, address, kSize);
    const Location past = locate(as_pointer(address + kSize));
    EXPECT_NE(past.begin, address) << "one past the end is not inside";
    const Location before = locate(as_pointer(address - 1));
    EXPECT_NE(before.begin, address);
    MUST(cu(cuMemFree)(address));
    is_host(as_pointer(address));
}

TEST_F(Memory, Once_located_makes_synchronous_copies_wait_for_their_end) {
    for (auto* allocate : {+[](CUdeviceptr* to) { return cu(cuMemAlloc)(to, 4096); },
                           +[](CUdeviceptr* to) { return cu(cuMemAllocManaged)(to, 4096, CU_MEM_ATTACH_GLOBAL); }}) {
        CUdeviceptr address = 0;
        MUST(allocate(&address));
        const auto marked = [&] {
            unsigned value = 0;
            EXPECT_EQ(cu(cuPointerGetAttribute)(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address), CUDA_SUCCESS);
            return value != 0;
        };
        EXPECT_FALSE(marked());
        EXPECT_TRUE(on_device(as_pointer(address)));
        EXPECT_FALSE(marked()) << "the fast test makes one query";
        EXPECT_TRUE(locate(as_pointer(address + 100)).on_device());
        EXPECT_TRUE(marked());
        MUST(cu(cuMemFree)(address));
    }
}

TEST_F(Memory, Of_a_context_that_is_not_primary_names_that_context) {
    MUST(cu(cuCtxPushCurrent)(other_));
    CUdeviceptr address = 0;
    MUST(cu(cuMemAlloc)(&address, 4096));
    CUcontext popped = nullptr;
    MUST(cu(cuCtxPopCurrent)(&popped));
    is_in(as_pointer(address + 17), Kind::kDevice, 1, other_, false, address, 4096);
    EXPECT_FALSE(active(1)) << "asking must not make the primary context";
    // Once the program has the primary context as well, the memory still belongs to the other one.
    CUcontext primary = nullptr;
    MUST(cu(cuDevicePrimaryCtxRetain)(&primary, 1));
    is_in(as_pointer(address), Kind::kDevice, 1, other_, false, address, 4096);
    EXPECT_TRUE(active(1));
    MUST(cu(cuDevicePrimaryCtxRelease)(1));
    EXPECT_FALSE(active(1)) << "a reference to the program's context was kept";
    MUST(cu(cuMemFree)(address));
}

TEST_F(Memory, Page_locked_by_the_driver_is_the_hosts_to_MPI) {
    void* address = nullptr;
    MUST(cu(cuMemHostAlloc)(&address, 8192, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    is_in(static_cast<char*>(address) + 8191, Kind::kPinned, -1, nullptr, true, as_number(address), 8192);
    MUST(cu(cuMemFreeHost)(address));
    EXPECT_FALSE(on_device(address));
}

TEST_F(Memory, Registered_by_the_program_is_page_locked_until_it_is_unregistered) {
    void* address = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    is_host(address);
    MUST(cu(cuMemHostRegister)(address, 8192, 0));
    EXPECT_EQ(locate(static_cast<char*>(address) + 4097).kind, Kind::kPinned);
    EXPECT_FALSE(on_device(address));
    MUST(cu(cuMemHostUnregister)(address));
    is_host(address);
    munmap(address, 8192);
}

TEST_F(Memory, Managed_counts_as_a_devices) {
    CUdeviceptr address = 0;
    MUST(cu(cuMemAllocManaged)(&address, 100'000, CU_MEM_ATTACH_GLOBAL));
    is_in(as_pointer(address + 99'999), Kind::kManaged, 0, primary_, true, address, 100'000);
    MUST(cu(cuMemFree)(address));
    is_host(as_pointer(address));
}

TEST_F(Memory, Of_a_pool_belongs_to_the_devices_primary_context) {
    CUdeviceptr address = 0;
    MUST(cu(cuMemAllocAsync)(&address, 5000, nullptr));
    MUST(cu(cuStreamSynchronize)(nullptr));
    const Location location = locate(as_pointer(address + 4999));
    EXPECT_EQ(location.kind, Kind::kDevice);
    EXPECT_EQ(location.ordinal, 0);
    EXPECT_EQ(location.context, primary_);
    EXPECT_TRUE(location.primary);
    EXPECT_TRUE(on_device(as_pointer(address)));
    MUST(cu(cuMemFreeAsync)(address, nullptr));
    MUST(cu(cuStreamSynchronize)(nullptr));
}

// Memory made by cuMemCreate and mapped on `device`.
struct Mapped {
    // With as many bytes reserved on either side as are mapped, where `in_more`.
    explicit Mapped(int device, bool in_more = false) {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        EXPECT_EQ(cu(cuMemGetAllocationGranularity)(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  CUDA_SUCCESS);
        EXPECT_EQ(cu(cuMemCreate)(&handle, size, &properties, 0), CUDA_SUCCESS);
        reserved_size = in_more ? 3 * size : size;
        EXPECT_EQ(cu(cuMemAddressReserve)(&reserved, reserved_size, 0, 0, 0), CUDA_SUCCESS);
        address = in_more ? reserved + size : reserved;
        EXPECT_EQ(cu(cuMemMap)(address, size, 0, handle, 0), CUDA_SUCCESS);
        CUmemAccessDesc access{};
        access.location = properties.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        EXPECT_EQ(cu(cuMemSetAccess)(address, size, &access, 1), CUDA_SUCCESS);
    }
    ~Mapped() {
        cu(cuMemUnmap)(address, size);
        cu(cuMemAddressFree)(reserved, reserved_size);
        cu(cuMemRelease)(handle);
    }
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0, reserved = 0;
    std::size_t size = 0, reserved_size = 0;
};

TEST_F(Memory, Mapped_into_a_larger_reservation_ends_where_nothing_is_mapped) {
    const Mapped memory(0, true);
    is_in(as_pointer(memory.address), Kind::kDevice, 0, primary_, true, memory.address, memory.size);
    is_in(as_pointer(memory.address + memory.size - 1), Kind::kDevice, 0, primary_, true, memory.address, memory.size);
    for (const CUdeviceptr outside : {memory.reserved, memory.address - 1, memory.address + memory.size}) {
        EXPECT_FALSE(on_device(as_pointer(outside)));
        EXPECT_EQ(locate(as_pointer(outside)).kind, Kind::kHost);
    }
}

TEST_F(Memory, Mapped_by_the_program_belongs_to_the_devices_primary_context) {
    const Mapped memory(0);
    is_in(as_pointer(memory.address + 100), Kind::kDevice, 0, primary_, true, memory.address, memory.size);
}

TEST_F(Memory, Mapped_where_there_is_no_primary_context_goes_by_the_callers_context_or_none) {
    const Mapped memory(1);
    const Location none = locate(as_pointer(memory.address));
    EXPECT_EQ(none.kind, Kind::kDevice);
    EXPECT_EQ(none.ordinal, 1);
    EXPECT_EQ(none.context, nullptr);
    MUST(cu(cuCtxPushCurrent)(other_));
    is_in(as_pointer(memory.address), Kind::kDevice, 1, other_, false, memory.address, memory.size);
    CUcontext popped = nullptr;
    MUST(cu(cuCtxPopCurrent)(&popped));
    EXPECT_EQ(popped, other_);
    EXPECT_FALSE(active(1));
}

TEST_F(Memory, Is_found_by_a_thread_without_a_context_which_has_none_afterwards) {
    CUdeviceptr address = 0;
    MUST(cu(cuMemAlloc)(&address, 4096));
    std::thread([&] {
        is_in(as_pointer(address), Kind::kDevice, 0, primary_, true, address, 4096);
        Stream lane;
        EXPECT_EQ(Stream::acquire(primary_, lane), 0);
        EXPECT_EQ(lane.record(), 0);
        CUcontext current = primary_;
        EXPECT_EQ(cu(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
        EXPECT_EQ(current, nullptr);
    }).join();
    MUST(cu(cuMemFree)(address));
}

TEST_F(Memory, Is_found_by_a_thread_whose_context_was_destroyed) {
    CUdeviceptr address = 0;
    MUST(cu(cuMemAlloc)(&address, 4096));
    const CUcontext doomed = VirtualGpus::make_context(1);
    std::thread([&] {
        MUST(cu(cuCtxSetCurrent)(doomed));
        std::thread([&] { MUST(cu(cuCtxDestroy)(doomed)); }).join();
        is_in(as_pointer(address), Kind::kDevice, 0, primary_, true, address, 4096);
        int host = 0;
        is_host(&host);
        Stream lane;
        EXPECT_EQ(Stream::acquire(primary_, lane), 0);
    }).join();
    MUST(cu(cuMemFree)(address));
}

TEST_F(Memory, Is_the_hosts_in_a_forked_child) {
    CUdeviceptr address = 0;
    MUST(cu(cuMemAlloc)(&address, 4096));
    const pid_t child = fork();
    if (child == 0)
        _exit(!on_device(as_pointer(address)) && !locate(as_pointer(address)).on_device() ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    MUST(cu(cuMemFree)(address));
}

TEST_F(Memory, Devices_are_named_without_contexts) {
    EXPECT_EQ(device_count(), 3);
    for (int ordinal = 0; ordinal < 3; ++ordinal) {
        Identity identity;
        ASSERT_TRUE(identify(ordinal, identity));
        CUuuid uuid{};
        MUST(cu(cuDeviceGetUuid)(&uuid, ordinal));
        EXPECT_EQ(std::memcmp(uuid.bytes, identity.uuid.data(), 16), 0);
        char bus[32] = {};
        MUST(cu(cuDeviceGetPCIBusId)(bus, sizeof bus, ordinal));
        unsigned domain = 0;
        unsigned number = 0;
        unsigned slot = 0;
        ASSERT_EQ(std::sscanf(bus, "%x:%x:%x", &domain, &number, &slot), 3);
        EXPECT_EQ(identity.pci_domain, static_cast<int>(domain));
        EXPECT_EQ(identity.pci_bus, static_cast<int>(number));
        EXPECT_EQ(identity.pci_device, static_cast<int>(slot));
        EXPECT_NE(device_name(ordinal), "");
    }
    EXPECT_EQ(device_name(3), "");
    EXPECT_FALSE(active(2));
}

}  // namespace
