// Copies and fills: the bytes that they move, the errors, and when they return.
#include <cstring>
#include <random>

#include "../../random_seed.hpp"
#include "fixture.hpp"

using vgpu::test::Gate;

class Copy : public vgpu::test::WithContext {
  protected:
    void* pinned(std::size_t bytes) {
        void* memory = nullptr;
        EXPECT_EQ(cuMemHostAlloc(&memory, bytes, 0), CUDA_SUCCESS);
        return memory;
    }
};

TEST_F(Copy, Every_kind_and_size_moves_the_bytes) {
    for (const std::size_t count : {1u, 3u, 1000u, 16384u, 16385u, 100000u, 1u << 20}) {
        const auto values = numbers(count, 7);
        const std::size_t bytes = count * sizeof(int);
        const CUdeviceptr first = allocate(bytes);
        const CUdeviceptr second = allocate(bytes);
        std::vector<int> back(count);
        ASSERT_EQ(cuMemcpyHtoD(first, values.data(), bytes), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoD(second, first, bytes), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoH(back.data(), second, bytes), CUDA_SUCCESS);
        EXPECT_EQ(back, values) << count;
        std::fill(back.begin(), back.end(), 0);
        ASSERT_EQ(cuMemsetD32(first, 0, count), CUDA_SUCCESS);
        const CUstream work = stream();
        ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyHtoDAsync(first, values.data(), bytes, work), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoDAsync(second, first, bytes, work), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoHAsync(back.data(), second, bytes, work), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
        EXPECT_EQ(back, values) << count;
        std::vector<int> host(count);
        ASSERT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(host.data()), first, bytes), CUDA_SUCCESS);
        EXPECT_EQ(host, values);
    }
}

TEST_F(Copy, A_range_that_is_not_wholly_in_live_memory_is_refused) {
    const CUdeviceptr pointer = allocate(1000);
    std::vector<char> host(2000);
    EXPECT_EQ(cuMemcpyHtoD(pointer, host.data(), 1001), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(host.data(), pointer + 500, 501), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(host.data()), pointer + 999, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyAsync(pointer, pointer + 600, 401, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD8(pointer + 1, 0, 1000), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD32(pointer + 2, 0, 4), CUDA_ERROR_INVALID_VALUE);  // not aligned
    ASSERT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(host.data(), pointer, 10), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(host.data(), pointer, 0), CUDA_SUCCESS);
}

TEST_F(Copy, A_batch_moves_in_its_streams_order_what_comes_before_what_is_not_valid) {
    using BatchCopy =
        CUresult (*)(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, CUstream);
    void* address = nullptr;
    ASSERT_EQ(cuGetProcAddress("cuMemcpyBatchAsync", &address, 13000, 0, nullptr), CUDA_SUCCESS);
    const auto copy_batch = reinterpret_cast<BatchCopy>(address);
    const CUdeviceptr target = allocate(4096), source = allocate(4096);
    ASSERT_EQ(cuMemsetD32(target, 0, 1024), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32(source, 5, 1024), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    auto* const reused = static_cast<int*>(pinned(400));
    std::fill_n(reused, 100, 9);
    CUdeviceptr to[] = {target, target + 400}, from[] = {reinterpret_cast<CUdeviceptr>(reused), source};
    std::size_t sizes[] = {400, 800}, starts[] = {0, 1};
    CUmemcpyAttributes attributes[2] = {};
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    const CUstream work = stream();
    Gate gate;
    gate.close_on(work);
    std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        gate.open = true;
    });
    ASSERT_EQ(cuMemsetD32Async(source, 6, 1024, work), CUDA_SUCCESS);
    ASSERT_EQ(copy_batch(to, from, sizes, 2, attributes, starts, 2, work), CUDA_SUCCESS);
    EXPECT_TRUE(gate.open) << "a page-locked source is read where it lies, so the call waits for the stream";
    std::fill_n(reused, 100, -1);  // it is the program's again
    opener.join();
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    std::vector<int> expected(100, 9);
    expected.resize(300, 6);
    EXPECT_EQ(read<int>(target, 300), expected);

    to[1] = target + 4000;
    EXPECT_EQ(copy_batch(to, from, sizes, 2, attributes, starts, 2, work), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    std::fill_n(expected.begin(), 100, -1);
    EXPECT_EQ(read<int>(target, 300), expected) << "the first copy is made where the second is not valid";
    to[1] = target + 400;
    starts[1] = 0;
    EXPECT_EQ(copy_batch(to, from, sizes, 2, attributes, starts, 2, work), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy_batch(to, from, sizes, 2, attributes, starts, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy_batch(to, from, sizes, 2, attributes, starts, 0, work), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, The_direction_in_a_functions_name_is_held_to_where_it_names_the_device) {
    const CUdeviceptr device = allocate(100);
    std::vector<char> host(100);
    const auto host_address = reinterpret_cast<CUdeviceptr>(host.data());
    EXPECT_EQ(cuMemcpyDtoH(reinterpret_cast<void*>(device), device, 100), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoD(host_address, host.data(), 100), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoD(device, host_address, 100), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoD(device, pinned(100), 100), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoD(device, reinterpret_cast<CUdeviceptr>(pinned(100)), 100), CUDA_SUCCESS);
}

TEST_F(Copy, Asynchronous_copies_of_pinned_memory_return_before_they_are_done) {
    auto* const host = static_cast<int*>(pinned(400));
    const CUdeviceptr device = allocate(400);
    const CUstream work = stream();
    Gate gate;
    gate.close_on(work);
    std::fill(host, host + 100, 1);
    ASSERT_EQ(cuMemcpyHtoDAsync(device, host, 400, work), CUDA_SUCCESS);
    std::fill(host, host + 100, 2);  // too early: the copy takes what is there when it runs
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    gate.open = true;
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(device, 100), std::vector<int>(100, 2));
}

TEST_F(Copy, A_small_pageable_source_is_the_programs_again_when_an_asynchronous_copy_returns) {
    std::vector<int> host(100, 1);
    const CUdeviceptr device = allocate(400);
    const CUstream work = stream();
    Gate gate;
    gate.close_on(work);
    ASSERT_EQ(cuMemcpyHtoDAsync(device, host.data(), 400, work), CUDA_SUCCESS);
    std::fill(host.begin(), host.end(), 2);
    gate.open = true;
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(device, 100), std::vector<int>(100, 1));
}

TEST_F(Copy, A_large_pageable_source_makes_an_asynchronous_copy_wait_for_its_stream) {
    std::vector<int> host(1 << 20, 1);
    const CUdeviceptr device = allocate(host.size() * sizeof(int));
    const CUstream work = stream();
    Gate gate;
    gate.close_on(work);
    std::atomic<bool> returned{false};
    std::thread copier([&] {
        ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyHtoDAsync(device, host.data(), host.size() * sizeof(int), work), CUDA_SUCCESS);
        std::fill(host.begin(), host.end(), 2);
        returned = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(returned);
    gate.open = true;
    copier.join();
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(device, host.size()), std::vector<int>(host.size(), 1));
}

TEST_F(Copy, A_copy_to_pageable_memory_returns_only_when_done_even_if_asynchronous) {
    std::vector<int> host(1000);
    const CUdeviceptr device = allocate(4000);
    const CUstream work = stream();
    ASSERT_EQ(cuMemsetD32Async(device, 9, 1000, work), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync(host.data(), device, 4000, work), CUDA_SUCCESS);
    EXPECT_EQ(host, std::vector<int>(1000, 9));  // with no synchronisation
}

TEST_F(Copy, Synchronous_calls_on_device_memory_alone_do_not_wait) {
    const CUdeviceptr first = allocate(400);
    const CUdeviceptr second = allocate(400);
    Gate gate;
    gate.close_on(CU_STREAM_LEGACY);
    ASSERT_EQ(cuMemsetD32(first, 4, 100), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoD(second, first, 400), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    gate.open = true;
    EXPECT_EQ(read<int>(second, 100), std::vector<int>(100, 4));
}

TEST_F(Copy, Memory_marked_for_synchronous_operations_makes_them_so) {
    const CUdeviceptr first = allocate(400);
    const unsigned yes = 1;
    ASSERT_EQ(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first), CUDA_SUCCESS);
    Gate gate;
    gate.close_on(CU_STREAM_LEGACY);
    std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        gate.open = true;
    });
    ASSERT_EQ(cuMemsetD32(first, 4, 100), CUDA_SUCCESS);
    EXPECT_TRUE(gate.open);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
    opener.join();
}

TEST_F(Copy, Marking_memory_waits_for_the_synchronous_calls_that_have_returned) {
    const CUdeviceptr first = allocate(400), second = allocate(400), other = allocate(400);
    const unsigned yes = 1;
    Gate gate;
    gate.close_on(CU_STREAM_LEGACY);
    ASSERT_EQ(cuMemsetD32(first, 4, 100), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoD(second, first, 400), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32Async(other, 4, 100, CU_STREAM_LEGACY), CUDA_SUCCESS);
    ASSERT_EQ(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, other), CUDA_SUCCESS);
    EXPECT_FALSE(gate.open) << "the call was not a synchronous one";
    std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        gate.open = true;
    });
    ASSERT_EQ(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, second), CUDA_SUCCESS);
    EXPECT_TRUE(gate.open);
    EXPECT_EQ(read<int>(second, 100), std::vector<int>(100, 4));
    opener.join();
}

TEST_F(Copy, Boxes_move_the_rows_they_name_and_no_others) {
    const unsigned seed = random_seed();
    SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    for (int round = 0; round < 60; ++round) {
        const auto dimension = [&](unsigned limit) { return 1 + random() % limit; };
        CUDA_MEMCPY3D box = {};
        box.WidthInBytes = dimension(50);
        box.Height = dimension(10);
        box.Depth = dimension(5);
        box.srcXInBytes = random() % 7;
        box.srcY = random() % 3;
        box.srcZ = random() % 3;
        box.dstXInBytes = random() % 7;
        box.dstY = random() % 3;
        box.dstZ = random() % 3;
        box.srcPitch = box.WidthInBytes + box.srcXInBytes + random() % 9;
        box.srcHeight = box.Height + box.srcY + random() % 3;
        box.dstPitch = box.WidthInBytes + box.dstXInBytes + random() % 9;
        box.dstHeight = box.Height + box.dstY + random() % 3;
        std::vector<unsigned char> source(box.srcPitch * box.srcHeight * (box.Depth + box.srcZ));
        std::vector<unsigned char> target(box.dstPitch * box.dstHeight * (box.Depth + box.dstZ), 0xee);
        for (auto& byte : source)
            byte = static_cast<unsigned char>(random() % 200);
        auto expected = target;
        for (std::size_t z = 0; z < box.Depth; ++z)
            for (std::size_t y = 0; y < box.Height; ++y)
                for (std::size_t x = 0; x < box.WidthInBytes; ++x)
                    expected[((z + box.dstZ) * box.dstHeight + y + box.dstY) * box.dstPitch + x + box.dstXInBytes] =
                        source[((z + box.srcZ) * box.srcHeight + y + box.srcY) * box.srcPitch + x + box.srcXInBytes];
        const CUdeviceptr device = allocate(target.size());
        ASSERT_EQ(cuMemcpyHtoD(device, target.data(), target.size()), CUDA_SUCCESS);
        box.srcMemoryType = CU_MEMORYTYPE_HOST;
        box.srcHost = source.data();
        box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        box.dstDevice = device;
        ASSERT_EQ(cuMemcpy3D(&box), CUDA_SUCCESS);
        EXPECT_EQ(read<unsigned char>(device, target.size()), expected);
        box.Depth += 50;
        EXPECT_EQ(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE);
    }
}

TEST_F(Copy, Two_dimensional_fills_leave_the_gaps_alone) {
    const CUdeviceptr device = allocate(1000);
    ASSERT_EQ(cuMemsetD8(device, 1, 1000), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD2D16(device + 100, 50, 0x0203, 10, 4), CUDA_SUCCESS);
    const auto bytes = read<unsigned char>(device, 1000);
    for (unsigned i = 0; i < 1000; ++i) {
        const bool inside = i >= 100 && i < 300 && (i - 100) % 50 < 20;
        EXPECT_EQ(bytes[i], inside ? (i % 2 == 0 ? 3 : 2) : 1) << i;
    }
}
