// Which device moves managed memory that is at home on the host: the nearest to its pages of those that are in use. On
// virtual GPUs of a machine of which the first two are near NUMA node 1 and the third is near node 0; the node of the
// pages is what this machine's kernel says.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "device/device.hpp"
#include "in_child.hpp"
#include "topology/memory.hpp"
#include "virtual_gpus.hpp"

namespace {

using namespace swy::device;
using swy::settings::Sync;

constexpr std::size_t kBytes = 100'000;

// In the form that CUDA 8 to 12 declare; the exported name keeps it.
void keep_on_host(CUdeviceptr address) {
    using Advise = CUresult (*)(CUdeviceptr, std::size_t, CUmem_advise, CUdevice);
    auto* advise = reinterpret_cast<Advise>(VirtualGpus::symbol("cuMemAdvise"));
    EXPECT_EQ(advise(address, kBytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU), CUDA_SUCCESS);
}

// Calls body(memory, contexts) with managed memory that device 1 has allocated and the host has written to, and the
// primary contexts of the three devices.
template <typename Body>
void with_managed(Body body) {
    const char* source = std::getenv("SWY_SRCDIR");
    const std::string machine = std::string(source != nullptr ? source : ".") + "/tests/topology/domains.xml";
    setenv("VGPU_TOPOLOGY", machine.c_str(), 1);
    setenv("HWLOC_XMLFILE", machine.c_str(), 1);
    in_child("", [&](void*) {
        MUST(cu(cuInit)(0));
        ASSERT_TRUE(adopt_loaded_driver());
        std::array<CUcontext, 3> contexts{};
        for (int device = 0; device < 3; ++device)
            MUST(cu(cuDevicePrimaryCtxRetain)(&contexts[static_cast<std::size_t>(device)], device));
        MUST(cu(cuCtxSetCurrent)(contexts[1]));
        CUdeviceptr address = 0;
        MUST(cu(cuMemAllocManaged)(&address, kBytes, CU_MEM_ATTACH_GLOBAL));
        *reinterpret_cast<char*>(address) = 1;
        body(address, contexts);
    });
    unsetenv("VGPU_TOPOLOGY");
    unsetenv("HWLOC_XMLFILE");
}

const void* at(CUdeviceptr address) {
    return reinterpret_cast<const void*>(address);
}

TEST(Managed_memory, That_is_nowhere_at_home_is_moved_by_the_device_that_allocated_it) {
    with_managed([](CUdeviceptr address, const auto& contexts) {
        const Location location = locate(at(address));
        EXPECT_EQ(location.ordinal, 1);
        EXPECT_EQ(location.context, contexts[1]);
        EXPECT_FALSE(location.any_device);
    });
}

TEST(Managed_memory, At_home_on_the_host_is_moved_by_the_nearest_device) {
    with_managed([](CUdeviceptr address, const auto& contexts) {
        keep_on_host(address);
        const int node = swy::topology::node_of(at(address));
        const int nearest = node == 0 ? 2 : 1;  // near node 1 are 0 and 1, and 1 is its own
        const Location location = locate(at(address));
        EXPECT_EQ(location.kind, Kind::kManaged);
        EXPECT_EQ(location.ordinal, nearest) << "on node " << node;
        EXPECT_EQ(location.context, contexts[static_cast<std::size_t>(nearest)]);
        EXPECT_TRUE(location.primary);
        EXPECT_TRUE(location.any_device);
    });
}

// What a program does in the order of a stream, a while after it was asked for.
void write_late(void* memory) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    *static_cast<char*>(memory) = 2;
}

TEST(Managed_memory, At_home_on_the_host_is_moved_after_what_the_program_does_with_it_on_any_device) {
    with_managed([](CUdeviceptr address, const auto& contexts) {
        keep_on_host(address);
        static_cast<void>(locate(at(address)));
        MUST(cu(cuLaunchHostFunc)(nullptr, write_late, reinterpret_cast<void*>(address)));  // on device 1
        Stream lane;
        ASSERT_EQ(Stream::acquire(contexts[2], lane), 0);
        ASSERT_EQ(lane.wait_for_program(Sync::kLegacy), 0);
        char copy = 0;
        ASSERT_EQ(lane.copy(&copy, at(address), 1), 0);
        ASSERT_EQ(lane.record(), 0);
        for (bool done = false; !done;)
            ASSERT_EQ(lane.query(done), 0);
        EXPECT_EQ(copy, 2);
    });
}

TEST(Managed_memory, At_home_on_the_host_is_not_moved_by_a_device_that_the_program_does_not_use) {
    with_managed([](CUdeviceptr address, const auto& contexts) {
        keep_on_host(address);
        MUST(cu(cuDevicePrimaryCtxRelease)(2));
        const Location location = locate(at(address));
        EXPECT_EQ(location.ordinal, 1);
        EXPECT_EQ(location.context, contexts[1]);
        unsigned flags = 0;
        int active = 1;
        MUST(cu(cuDevicePrimaryCtxGetState)(2, &flags, &active));
        EXPECT_EQ(active, 0) << "a context was made";
    });
}

}  // namespace
