// The driver's answers to queries about pointers.
#include <cstdlib>
#include <cstring>

#include "fixture.hpp"

namespace {

template <typename Value>
CUresult ask(CUpointer_attribute attribute, CUdeviceptr pointer, Value& value) {
    return cuPointerGetAttribute(&value, attribute, pointer);
}

CUdeviceptr address(const void* pointer) {
    return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace

class Pointer : public vgpu::test::WithContext {
  protected:
    unsigned type_of(CUdeviceptr pointer) {
        unsigned type = 0;
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer, type), CUDA_SUCCESS);
        return type;
    }
};

TEST_F(Pointer, Device_memory_is_known_inside_and_not_beside_and_not_after_free) {
    const CUdeviceptr pointer = allocate(1000);
    for (const unsigned offset : {0u, 1u, 500u, 999u}) {
        int device = -1;
        CUcontext owner = nullptr;
        CUdeviceptr start = 0;
        std::size_t size = 0;
        CUdeviceptr on_device = 0;
        unsigned managed = 9;
        EXPECT_EQ(type_of(pointer + offset), static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer + offset, device), CUDA_SUCCESS);
        EXPECT_EQ(device, 0);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_CONTEXT, pointer + offset, owner), CUDA_SUCCESS);
        EXPECT_EQ(owner, context);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer + offset, start), CUDA_SUCCESS);
        EXPECT_EQ(start, pointer);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + offset, size), CUDA_SUCCESS);
        EXPECT_EQ(size, 1000u);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer + offset, on_device), CUDA_SUCCESS);
        EXPECT_EQ(on_device, pointer + offset);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer + offset, managed), CUDA_SUCCESS);
        EXPECT_EQ(managed, 0u);
    }
    void* host = nullptr;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer, host), CUDA_ERROR_INVALID_VALUE);
    unsigned type = 0;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 1000, type), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer, type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pointer, The_range_of_mapped_memory_is_its_reservation_and_nothing_is_known_beside_what_is_mapped) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    std::size_t unit = 0;
    ASSERT_EQ(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr base = 0;
    ASSERT_EQ(cuMemCreate(&memory, unit, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAddressReserve(&base, 3 * unit, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(base + unit, unit, 0, memory, 0), CUDA_SUCCESS);
    CUdeviceptr start = 0;
    std::size_t size = 0;
    unsigned mapped = 9;
    unsigned type = 0;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base + unit + 5, start), CUDA_SUCCESS);
    EXPECT_EQ(start, base + unit);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + unit + 5, size), CUDA_SUCCESS);
    EXPECT_EQ(size, unit);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + unit + 5, start), CUDA_SUCCESS);
    EXPECT_EQ(start, base);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + unit + 5, size), CUDA_SUCCESS);
    EXPECT_EQ(size, 3 * unit);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MAPPED, base + unit + 5, mapped), CUDA_SUCCESS);
    EXPECT_EQ(mapped, 1u);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + unit + 5, type), CUDA_SUCCESS);
    for (const CUdeviceptr address : {base, base + 2 * unit}) {
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address, start), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address, size), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MAPPED, address, mapped), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address, type), CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(cuMemUnmap(base + unit, unit), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(base, 3 * unit), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
}

TEST_F(Pointer, Host_memory_is_unknown_to_the_single_form_and_zero_in_the_other) {
    std::vector<int> heap(100);
    int stack = 0;
    static int data = 0;
    for (const CUdeviceptr pointer :
         {address(heap.data()), address(&stack), address(&data), CUdeviceptr{0}, ~CUdeviceptr{0}}) {
        unsigned type = 77;
        EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer, type), CUDA_ERROR_INVALID_VALUE);
        unsigned managed = 77;
        int device = 77;
        CUcontext owner = context;
        CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
        void* values[] = {&type, &managed, &device, &owner};
        EXPECT_EQ(cuPointerGetAttributes(4, attributes, values, pointer), CUDA_SUCCESS);
        EXPECT_EQ(type, 0u);
        EXPECT_EQ(managed, 0u);
        EXPECT_EQ(device, CU_DEVICE_INVALID);
        EXPECT_EQ(owner, nullptr);
    }
}

TEST_F(Pointer, Pinned_memory_is_host_memory_that_the_device_addresses_alike) {
    void* pinned = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&pinned, 5000, 0), CUDA_SUCCESS);
    memset(pinned, 1, 5000);
    EXPECT_EQ(type_of(address(pinned) + 4999), static_cast<unsigned>(CU_MEMORYTYPE_HOST));
    void* host = nullptr;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, address(pinned) + 8, host), CUDA_SUCCESS);
    EXPECT_EQ(host, static_cast<char*>(pinned) + 8);
    CUdeviceptr device = 0;
    EXPECT_EQ(cuMemHostGetDevicePointer(&device, pinned, 0), CUDA_SUCCESS);
    EXPECT_EQ(device, address(pinned));
    EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
    unsigned type = 0;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pinned), type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pointer, Registered_memory_is_pinned_until_unregistered) {
    std::vector<char> memory(3 << 12);
    EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    ASSERT_EQ(cuMemHostRegister(memory.data(), memory.size(), 0), CUDA_SUCCESS);
    EXPECT_EQ(type_of(address(memory.data() + 5)), static_cast<unsigned>(CU_MEMORYTYPE_HOST));
    EXPECT_EQ(cuMemHostRegister(memory.data() + 100, 100, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(cuMemHostUnregister(memory.data() + 100), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_SUCCESS);
    unsigned type = 0;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(memory.data()), type), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(4096), 4096, 0), CUDA_ERROR_INVALID_VALUE);  // not mapped
    EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(allocate(64)), 64, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pointer, Managed_memory_is_device_memory_that_the_host_may_touch) {
    CUdeviceptr managed = 0;
    ASSERT_EQ(cuMemAllocManaged(&managed, 4000, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    auto* const values = reinterpret_cast<int*>(managed);
    for (int i = 0; i < 1000; ++i)
        values[i] = i;
    EXPECT_EQ(read<int>(managed, 1000), numbers(1000));
    ASSERT_EQ(cuMemsetD32(managed, 5, 1000), CUDA_SUCCESS);
    EXPECT_EQ(values[999], 5);
    EXPECT_EQ(type_of(managed), static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    unsigned is_managed = 0;
    void* host = nullptr;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed + 9, is_managed), CUDA_SUCCESS);
    EXPECT_EQ(is_managed, 1u);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, managed, host), CUDA_SUCCESS);
    EXPECT_EQ(host, values);
    EXPECT_EQ(cuMemPrefetchAsync_v2(managed, 4000, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAdvise_v2(managed, 4000, CU_MEM_ADVISE_SET_READ_MOSTLY, {}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAdvise_v2(managed, 4000, CU_MEM_ADVISE_SET_READ_MOSTLY, {CU_MEM_LOCATION_TYPE_DEVICE, 0}),
              CUDA_SUCCESS);
    int read_mostly = 0;
    EXPECT_EQ(cuMemRangeGetAttribute(&read_mostly, sizeof(int), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, 4000),
              CUDA_SUCCESS);
    EXPECT_EQ(read_mostly, 1);
    EXPECT_EQ(cuMemPrefetchAsync_v2(allocate(64), 64, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(managed), CUDA_SUCCESS);
}

TEST_F(Pointer, Memory_of_another_device_tells_its_device_and_is_reached_by_copies) {
    NEEDS_DEVICES(3);
    CUcontext other = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 2), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
    const CUdeviceptr there = allocate(4000);
    ASSERT_EQ(cuCtxPopCurrent(&other), CUDA_SUCCESS);
    int device = -1;
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there + 4, device), CUDA_SUCCESS);
    EXPECT_EQ(device, 2);
    const CUdeviceptr here = allocate(4000);
    const auto values = numbers(1000);
    ASSERT_EQ(cuMemcpyHtoD(here, values.data(), 4000), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyPeer(there, other, here, context, 4000), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(there, 1000), values);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(2), CUDA_SUCCESS);
}

TEST_F(Pointer, Ids_are_never_used_twice) {
    unsigned long long first = 0;
    unsigned long long second = 0;
    const CUdeviceptr before = allocate(512);
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, before, first), CUDA_SUCCESS);
    ASSERT_EQ(cuMemFree(before), CUDA_SUCCESS);
    const CUdeviceptr after = allocate(512);
    EXPECT_EQ(after, before);  // the address is, which is why the id matters
    EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, after, second), CUDA_SUCCESS);
    EXPECT_NE(first, second);
}

TEST_F(Pointer, Look_ups_race_safely_with_allocation) {
    std::atomic<bool> stop{false};
    const CUdeviceptr steady = allocate(256);
    std::thread asker([&] {
        int local = 0;
        while (!stop) {
            unsigned type = 0;
            EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, steady, type), CUDA_SUCCESS);
            EXPECT_EQ(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(&local), type), CUDA_ERROR_INVALID_VALUE);
        }
    });
    for (int i = 0; i < 2000; ++i)
        EXPECT_EQ(cuMemFree(allocate(1 + static_cast<unsigned>(i))), CUDA_SUCCESS);
    stop = true;
    asker.join();
}
