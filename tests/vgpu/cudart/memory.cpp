// Memory of every kind, copies and fills. Results are compared with values computed on the host.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <cstring>
#include <numeric>
#include <vector>

#include "../real.hpp"
#include "child.hpp"

#if CUDART_VERSION < 13000  // CUDA 13's forms have a name of their own there
#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#define cudaMemAdvise cudaMemAdvise_v2
#endif

using vgpu::test::run_child;

extern "C" {
cudaError_t cudaMemcpy_ptds(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemset_ptds(void*, int, size_t);
}

namespace {

std::vector<unsigned char> pattern(size_t bytes, unsigned seed = 1) {
    std::vector<unsigned char> values(bytes);
    for (size_t i = 0; i < bytes; ++i)
        values[i] = static_cast<unsigned char>(seed + i * 7 + i / 256);
    return values;
}

// Device memory for the length of a test.
class Buffer {
  public:
    explicit Buffer(size_t bytes) : bytes_(bytes) { EXPECT_EQ(cudaMalloc(&pointer_, bytes), cudaSuccess); }
    ~Buffer() { EXPECT_EQ(cudaFree(pointer_), cudaSuccess); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    unsigned char* get() const { return static_cast<unsigned char*>(pointer_); }
    std::vector<unsigned char> read() const {
        std::vector<unsigned char> values(bytes_);
        EXPECT_EQ(cudaMemcpy(values.data(), pointer_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
        return values;
    }
    void write(const std::vector<unsigned char>& values) const {
        EXPECT_EQ(cudaMemcpy(pointer_, values.data(), values.size(), cudaMemcpyHostToDevice), cudaSuccess);
    }

  private:
    size_t bytes_;
    void* pointer_ = nullptr;
};

cudaPointerAttributes attributes_of(const void* pointer) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
    return attributes;
}

}  // namespace

class Memory : public testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(cudaSetDevice(0), cudaSuccess); }
    void TearDown() override { EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "left by the test"; }
};

TEST_F(Memory, comes_back_as_it_was_written_by_every_kind_of_copy) {
    const auto values = pattern(100'003);
    const Buffer a(values.size());
    const Buffer b(values.size());
    a.write(values);
    ASSERT_EQ(cudaMemcpy(b.get(), a.get(), values.size(), cudaMemcpyDeviceToDevice), cudaSuccess);
    EXPECT_EQ(b.read(), values);
    std::vector<unsigned char> host(values.size());
    ASSERT_EQ(cudaMemcpy(host.data(), b.get(), host.size(), cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(host, values);
    std::vector<unsigned char> other(values.size());
    ASSERT_EQ(cudaMemcpy(other.data(), host.data(), host.size(), cudaMemcpyHostToHost), cudaSuccess);
    EXPECT_EQ(other, values);
    ASSERT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDeviceToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host.data(), b.get(), 1, static_cast<cudaMemcpyKind>(7)), cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
}

TEST_F(Memory, of_no_bytes_is_a_null_pointer) {
    void* pointer = &pointer;
    EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
    EXPECT_EQ(pointer, nullptr);
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    EXPECT_EQ(cudaMallocManaged(&pointer, 0, cudaMemAttachGlobal), cudaSuccess);
}

TEST_F(Memory, that_was_freed_or_never_allocated_cannot_be_freed) {
    void* pointer = nullptr;
    ASSERT_EQ(cudaMalloc(&pointer, 64), cudaSuccess);
    ASSERT_EQ(cudaFree(pointer), cudaSuccess);
    EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
    int local = 0;
    EXPECT_EQ(cudaFree(&local), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Memory, is_filled_in_one_two_and_three_dimensions) {
    const Buffer flat(1000);
    ASSERT_EQ(cudaMemset(flat.get(), 0x5a, 1000), cudaSuccess);
    EXPECT_EQ(flat.read(), std::vector<unsigned char>(1000, 0x5a));
    constexpr size_t kPitch = 64, kRows = 6, kSlices = 3;
    const Buffer box(kPitch * kRows * kSlices);
    ASSERT_EQ(cudaMemset(box.get(), 0, kPitch * kRows * kSlices), cudaSuccess);
    const cudaPitchedPtr whole{box.get(), kPitch, kPitch, kRows};
    ASSERT_EQ(cudaMemset3D(whole, 7, cudaExtent{10, 4, 2}), cudaSuccess);
    ASSERT_EQ(cudaMemset2D(box.get() + kPitch * kRows * 2, kPitch, 9, 5, 2), cudaSuccess);
    const auto got = box.read();
    for (size_t z = 0; z < kSlices; ++z)
        for (size_t y = 0; y < kRows; ++y)
            for (size_t x = 0; x < kPitch; ++x) {
                const int expected = z < 2 ? (x < 10 && y < 4 ? 7 : 0) : (x < 5 && y < 2 ? 9 : 0);
                ASSERT_EQ(got[(z * kRows + y) * kPitch + x], expected) << x << ' ' << y << ' ' << z;
            }
}

TEST_F(Memory, with_a_pitch_is_copied_row_by_row) {
    constexpr size_t kWidth = 37, kHeight = 11;
    void* device = nullptr;
    size_t pitch = 0;
    ASSERT_EQ(cudaMallocPitch(&device, &pitch, kWidth, kHeight), cudaSuccess);
    EXPECT_GE(pitch, kWidth);
    const auto values = pattern(kWidth * kHeight);
    ASSERT_EQ(cudaMemcpy2D(device, pitch, values.data(), kWidth, kWidth, kHeight, cudaMemcpyHostToDevice), cudaSuccess);
    std::vector<unsigned char> row(kWidth);
    const void* third = static_cast<unsigned char*>(device) + 3 * pitch;
    ASSERT_EQ(cudaMemcpy(row.data(), third, kWidth, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(std::memcmp(row.data(), values.data() + 3 * kWidth, kWidth), 0);
    std::vector<unsigned char> back(values.size());
    ASSERT_EQ(cudaMemcpy2DAsync(back.data(), kWidth, device, pitch, kWidth, kHeight, cudaMemcpyDefault, nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(back, values);
    EXPECT_EQ(cudaMemcpy2D(device, pitch, values.data(), kWidth - 1, kWidth, kHeight, cudaMemcpyHostToDevice),
              cudaErrorInvalidPitchValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidPitchValue);
    EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(Memory, in_three_dimensions_is_copied_from_and_to_positions) {
    const cudaExtent extent{6, 5, 4};
    cudaPitchedPtr device{};
    ASSERT_EQ(cudaMalloc3D(&device, extent), cudaSuccess);
    EXPECT_EQ(device.xsize, 6u);
    EXPECT_EQ(device.ysize, 5u);
    auto values = pattern(6 * 5 * 4);
    cudaMemcpy3DParms in{};
    in.srcPtr = {values.data(), 6, 6, 5};
    in.dstPtr = device;
    in.extent = extent;
    in.kind = cudaMemcpyHostToDevice;
    ASSERT_EQ(cudaMemcpy3D(&in), cudaSuccess);
    std::vector<unsigned char> part(2 * 3 * 2, 0);
    cudaMemcpy3DParms out{};
    out.srcPtr = device;
    out.srcPos = {1, 2, 1};
    out.dstPtr = {part.data(), 2, 2, 3};
    out.extent = {2, 3, 2};
    out.kind = cudaMemcpyDeviceToHost;
    ASSERT_EQ(cudaMemcpy3DAsync(&out, nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (size_t z = 0; z < 2; ++z)
        for (size_t y = 0; y < 3; ++y)
            for (size_t x = 0; x < 2; ++x)
                ASSERT_EQ(part[(z * 3 + y) * 2 + x], values[((z + 1) * 5 + y + 2) * 6 + x + 1]);
    EXPECT_EQ(cudaFree(device.ptr), cudaSuccess);
}

TEST_F(Memory, is_copied_between_devices) {
    NEEDS_DEVICES(2);
    const auto values = pattern(5000, 9);
    const Buffer here(values.size());
    here.write(values);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    const Buffer there(values.size());
    ASSERT_EQ(cudaMemcpyPeer(there.get(), 1, here.get(), 0, values.size()), cudaSuccess);
    EXPECT_EQ(there.read(), values);
    int can = -1;
    EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 1, 0), cudaSuccess);
    ASSERT_EQ(can, 1);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
    EXPECT_EQ(cudaDeviceDisablePeerAccess(0), cudaSuccess);
    EXPECT_EQ(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(7, 0), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Memory, tells_where_a_pointer_lives) {
    const Buffer device(4096);
    EXPECT_EQ(attributes_of(device.get()).type, cudaMemoryTypeDevice);
    EXPECT_EQ(attributes_of(device.get() + 4095).type, cudaMemoryTypeDevice);
    EXPECT_EQ(attributes_of(device.get() + 100).devicePointer, device.get() + 100);
    EXPECT_EQ(attributes_of(device.get()).hostPointer, nullptr);
    EXPECT_EQ(attributes_of(device.get()).device, 0);
    void* pinned = nullptr;
    ASSERT_EQ(cudaMallocHost(&pinned, 4096), cudaSuccess);
    EXPECT_EQ(attributes_of(pinned).type, cudaMemoryTypeHost);
    EXPECT_EQ(attributes_of(pinned).hostPointer, pinned);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    void* managed = nullptr;
    ASSERT_EQ(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), cudaSuccess);
    EXPECT_EQ(attributes_of(managed).type, cudaMemoryTypeManaged);
    EXPECT_EQ(cudaFree(managed), cudaSuccess);
    int local = 0;
    EXPECT_EQ(attributes_of(&local).type, cudaMemoryTypeUnregistered);
    EXPECT_EQ(attributes_of(&local).hostPointer, &local);
    EXPECT_EQ(attributes_of(&local).devicePointer, nullptr);
    EXPECT_EQ(attributes_of(nullptr).type, cudaMemoryTypeUnregistered);
}

TEST_F(Memory, of_the_program_is_pinned_while_it_is_registered) {
    constexpr size_t kBytes = 1 << 16;
    void* host = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(host, MAP_FAILED);
    ASSERT_EQ(cudaHostRegister(host, kBytes, cudaHostRegisterDefault), cudaSuccess);
    EXPECT_EQ(attributes_of(host).type, cudaMemoryTypeHost);
    void* device = nullptr;
    EXPECT_EQ(cudaHostGetDevicePointer(&device, host, 0), cudaSuccess);
    EXPECT_NE(device, nullptr);
    EXPECT_EQ(cudaHostRegister(host, kBytes, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
    EXPECT_EQ(cudaHostUnregister(host), cudaSuccess);
    EXPECT_EQ(attributes_of(host).type, cudaMemoryTypeUnregistered);
    EXPECT_EQ(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
    EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);
    munmap(host, kBytes);
}

TEST_F(Memory, that_is_managed_is_the_hosts_and_the_devices) {
    int* values = nullptr;
    ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&values), 1000 * sizeof(int), cudaMemAttachGlobal),
              cudaSuccess);
    std::iota(values, values + 1000, 5);
    ASSERT_EQ(cudaMemPrefetchAsync(values, 1000 * sizeof(int), {cudaMemLocationTypeDevice, 0}, 0, nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaMemAdvise(values, 1000 * sizeof(int), cudaMemAdviseSetReadMostly, {cudaMemLocationTypeDevice, 0}),
              cudaSuccess);
    ASSERT_EQ(cudaMemset(values + 500, 0, 500 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(values[499], 504);
    EXPECT_EQ(values[500], 0);
    EXPECT_EQ(cudaFree(values), cudaSuccess);
}

TEST_F(Memory, of_a_pool_is_ordered_by_its_stream) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    void* memory = nullptr;
    ASSERT_EQ(cudaMallocAsync(&memory, 4096, stream), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(memory, 3, 4096, stream), cudaSuccess);
    std::vector<unsigned char> host(4096);
    ASSERT_EQ(cudaMemcpyAsync(host.data(), memory, 4096, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    ASSERT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(host, std::vector<unsigned char>(4096, 3));
    cudaMemPool_t pool = nullptr;
    cudaMemPool_t standard = nullptr;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
    ASSERT_EQ(cudaDeviceGetDefaultMemPool(&standard, 0), cudaSuccess);
    EXPECT_NE(pool, standard);
    unsigned long long keep = 1 << 20;
    unsigned long long kept = 0;
    EXPECT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), cudaSuccess);
    EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept), cudaSuccess);
    EXPECT_EQ(kept, keep);
    ASSERT_EQ(cudaMallocFromPoolAsync(&memory, 100, pool, stream), cudaSuccess);
    EXPECT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Memory, is_reached_by_the_per_thread_forms) {
    const auto values = pattern(777);
    const Buffer device(values.size());
    ASSERT_EQ(cudaMemcpy_ptds(device.get(), values.data(), values.size(), cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(device.read(), values);
    ASSERT_EQ(cudaMemset_ptds(device.get(), 4, values.size()), cudaSuccess);
    EXPECT_EQ(device.read(), std::vector<unsigned char>(777, 4));
}

TEST(HostAccess, DISABLED_touch_device_memory) {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
    *static_cast<volatile char*>(memory) = 1;
}

TEST(HostAccess, to_device_memory_is_a_fault) {
    const auto child = run_child("HostAccess.DISABLED_touch_device_memory");
    EXPECT_TRUE(child.killed_by(SIGSEGV)) << child.output;
}

TEST(Sharing, a_process_cannot_open_its_own_memory_handle_and_garbage_is_refused) {
    const Buffer memory(4096);
    cudaIpcMemHandle_t handle{};
    ASSERT_EQ(cudaIpcGetMemHandle(&handle, memory.get()), cudaSuccess);
    void* again = nullptr;
    EXPECT_NE(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
    int local = 0;
    EXPECT_EQ(cudaIpcGetMemHandle(&handle, &local), cudaErrorInvalidValue);
    cudaGetLastError();
}
