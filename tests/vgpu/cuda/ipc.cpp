// Memory and events of one process in another.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "fixture.hpp"
#include "process.hpp"

using vgpu::test::Process;

namespace {

template <typename Handle>
std::string text_of(const Handle& handle) {
    std::string text;
    char digits[3];
    for (std::size_t i = 0; i < sizeof handle; ++i) {
        snprintf(digits, sizeof digits, "%02x", reinterpret_cast<const unsigned char*>(&handle)[i]);
        text += digits;
    }
    return text;
}

template <typename Handle>
Handle handle_of(const std::string& text) {
    Handle handle{};
    for (std::size_t i = 0; i < sizeof handle && 2 * i + 1 < text.size(); ++i)
        reinterpret_cast<unsigned char*>(&handle)[i] =
            static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
    return handle;
}

std::string next_line() {
    std::string line;
    std::getline(std::cin, line);
    return line;
}

}  // namespace

class Ipc : public vgpu::test::WithContext {};
class IpcChild : public vgpu::test::WithContext {};

// Opens the memory whose handle it reads, checks 0, 1, 2 ... in it, writes 1000, 1001 ... and prints when it is done.
TEST_F(IpcChild, DISABLED_opens_memory) {
    const auto handle = handle_of<CUipcMemHandle>(next_line());
    CUdeviceptr pointer = 0;
    CUdeviceptr again = 0;
    ASSERT_EQ(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
    ASSERT_EQ(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
    EXPECT_EQ(again, pointer);
    EXPECT_EQ(read<int>(pointer, 1000), numbers(1000));
    std::size_t size = 0;
    EXPECT_EQ(cuMemGetAddressRange(nullptr, &size, pointer + 8), CUDA_SUCCESS);
    EXPECT_EQ(size, 4000u);
    CUipcMemHandle own;
    EXPECT_EQ(cuIpcGetMemHandle(&own, pointer), CUDA_ERROR_INVALID_VALUE);  // not ours to export
    const auto values = numbers(1000, 1000);
    ASSERT_EQ(cuMemcpyHtoD(pointer, values.data(), 4000), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    std::cout << "wrote" << std::endl;
    next_line();
    EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(pointer, 1)[0], 1000);  // opened twice
    EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
    EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Ipc, Memory_is_shared_both_ways_at_any_offset) {
    allocate(700);  // so that the exported memory does not begin a page
    const CUdeviceptr pointer = allocate(4000);
    const auto values = numbers(1000);
    ASSERT_EQ(cuMemcpyHtoD(pointer, values.data(), 4000), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    CUipcMemHandle handle;
    ASSERT_EQ(cuIpcGetMemHandle(&handle, pointer), CUDA_SUCCESS);
    CUdeviceptr opened = 0;
    EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
    // In the second process CUDA_VISIBLE_DEVICES hides the memory's GPU.
    for (const vgpu::test::Environment& environment :
         {vgpu::test::Environment{}, {{"VGPU_COUNT", "4"}, {"CUDA_VISIBLE_DEVICES", "3"}}}) {
        ASSERT_EQ(cuMemcpyHtoD(pointer, values.data(), 4000), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
        Process child("IpcChild.DISABLED_opens_memory", environment);
        child.tell(text_of(handle));
        child.await("wrote");
        EXPECT_EQ(read<int>(pointer, 1000), numbers(1000, 1000));
        child.tell("close");
        child.finish();
        EXPECT_EQ(child.status, 0) << child.output;
    }
}

TEST_F(Ipc, Only_plain_device_memory_is_exported) {
    CUipcMemHandle handle;
    CUdeviceptr pointer = 0;
    void* pinned = nullptr;
    ASSERT_EQ(cuMemAllocManaged(&pointer, 64, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cuIpcGetMemHandle(&handle, pointer), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(cuMemAllocAsync(&pointer, 64, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuIpcGetMemHandle(&handle, pointer), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(cuMemHostAlloc(&pinned, 64, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)), CUDA_ERROR_INVALID_VALUE);
    memset(&handle, 0, sizeof handle);
    EXPECT_EQ(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(IpcChild, DISABLED_exports_memory) {
    CUipcMemHandle handle;
    ASSERT_EQ(cuIpcGetMemHandle(&handle, allocate(4000)), CUDA_SUCCESS);
    std::cout << "handle " << text_of(handle) << std::endl;
    next_line();
}

TEST_F(Ipc, Memory_of_a_process_that_died_cannot_be_opened) {
    Process child("IpcChild.DISABLED_exports_memory", {});
    const auto handle = handle_of<CUipcMemHandle>(child.await("handle "));
    CUdeviceptr pointer = 0;
    ASSERT_EQ(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8(pointer, 1, 4000), CUDA_SUCCESS);
    ASSERT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
    child.kill(SIGKILL);
    child.finish();
    EXPECT_EQ(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
}

// Makes its stream wait for the event whose handle it reads, and prints when the wait is over.
TEST_F(IpcChild, DISABLED_waits_for_an_event) {
    CUevent shared = nullptr;
    ASSERT_EQ(cuIpcOpenEventHandle(&shared, handle_of<CUipcEventHandle>(next_line())), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(shared), CUDA_ERROR_NOT_READY);
    const CUstream work = stream();
    ASSERT_EQ(cuStreamWaitEvent(work, shared, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    std::cout << "waiting" << std::endl;
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(shared), CUDA_SUCCESS);
    std::cout << "over" << std::endl;
}

TEST_F(Ipc, An_event_orders_the_streams_of_two_processes) {
    CUevent timed = nullptr;
    EXPECT_EQ(cuEventCreate(&timed, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    CUipcEventHandle handle;
    EXPECT_EQ(cuIpcGetEventHandle(&handle, event()), CUDA_ERROR_INVALID_HANDLE);
    const CUevent shared = event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    ASSERT_EQ(cuIpcGetEventHandle(&handle, shared), CUDA_SUCCESS);
    const CUstream work = stream();
    vgpu::test::Gate gate;
    gate.close_on(work);
    ASSERT_EQ(cuEventRecord(shared, work), CUDA_SUCCESS);
    Process child("IpcChild.DISABLED_waits_for_an_event", {});
    child.tell(text_of(handle));
    child.await("waiting");
    EXPECT_EQ(cuEventQuery(shared), CUDA_ERROR_NOT_READY);
    gate.open = true;
    child.await("over");
    child.finish();
    EXPECT_EQ(child.status, 0) << child.output;
    EXPECT_EQ(cuEventQuery(shared), CUDA_SUCCESS);
}
