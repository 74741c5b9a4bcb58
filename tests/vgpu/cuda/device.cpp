// The list of devices, and the variables that describe them.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "fixture.hpp"
#include "process.hpp"

using vgpu::test::OwnDevices;
using vgpu::test::run;

namespace {

std::string bus_id(int device) {
    char text[32] = {};
    EXPECT_EQ(cuDeviceGetPCIBusId(text, sizeof text, device), CUDA_SUCCESS);
    return text;
}

std::string uuid(int device) {
    CUuuid id{};
    EXPECT_EQ(cuDeviceGetUuid(&id, device), CUDA_SUCCESS);
    return std::string(id.bytes, sizeof id.bytes);
}

}  // namespace

class Device : public testing::Test {};
class DeviceChild : public testing::Test {};

TEST_F(DeviceChild, DISABLED_tells_its_devices) {
    const CUresult result = cuInit(0);
    int count = 0;
    if (result == CUDA_SUCCESS) {
        ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
    }
    printf("init %d\ncount %d\n", result, count);
    for (int i = 0; i < count; ++i) {
        printf("device %s ", bus_id(i).c_str());
        for (const char c : uuid(i))
            printf("%02x", static_cast<unsigned char>(c));
        printf("\n");
    }
}

namespace {

// The devices that a process with this environment sees, "BUS-ID UUID" each.
std::vector<std::string> devices_with(const vgpu::test::Environment& environment, int* init = nullptr) {
    const auto ended = run("DeviceChild.DISABLED_tells_its_devices", environment);
    EXPECT_TRUE(ended.passed()) << ended.output;
    std::vector<std::string> devices;
    std::size_t place = 0;
    while ((place = ended.output.find("device ", place)) != std::string::npos) {
        devices.push_back(ended.output.substr(place + 7, ended.output.find('\n', place) - place - 7));
        ++place;
    }
    if (init != nullptr)
        *init = std::atoi(ended.output.c_str() + ended.output.find("init ") + 5);
    return devices;
}

}  // namespace

TEST_F(Device, Nothing_works_before_init) {
    const auto ended = run("DeviceChild.DISABLED_calls_before_init");
    EXPECT_TRUE(ended.passed()) << ended.output;
}

TEST_F(DeviceChild, DISABLED_calls_before_init) {
    int count = 0;
    CUdeviceptr pointer = 0;
    CUcontext context = nullptr;
    unsigned type = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuMemAlloc(&pointer, 16), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&type)),
              CUDA_ERROR_NOT_INITIALIZED);
    int version = 0;
    EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
    EXPECT_EQ(version, 13000);
    EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Device, A_forked_child_of_an_initialised_process_is_not_initialised) {
    const auto ended = run("DeviceChild.DISABLED_forks");
    EXPECT_TRUE(ended.passed()) << ended.output;
}

TEST_F(DeviceChild, DISABLED_forks) {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    CUdeviceptr pointer = 0;
    ASSERT_EQ(cuMemAlloc(&pointer, 16), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8Async(pointer, 1, 16, nullptr),
              CUDA_SUCCESS);  // a worker exists, which the child does not have
    const pid_t child = fork();
    if (child == 0) {
        const bool refused = cuMemAlloc(&pointer, 16) == CUDA_ERROR_NOT_INITIALIZED &&
                             cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                             cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
        exit(refused ? 0 : 1);  // with exit handlers
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(Device, Count_zero_is_no_device_and_leaves_the_driver_uninitialised) {
    VIRTUAL_ONLY("VGPU_COUNT");
    int init = -1;
    EXPECT_TRUE(devices_with({{"VGPU_COUNT", "0"}}, &init).empty());
    EXPECT_EQ(init, CUDA_ERROR_NO_DEVICE);
}

TEST_F(Device, One_device_is_the_default) {
    EXPECT_EQ(devices_with({{"VGPU_COUNT", ""}}).size(), 1u);
}

TEST_F(Device, Visible_devices_are_those_named_in_that_order_up_to_the_first_invalid) {
    VIRTUAL_ONLY("VGPU_COUNT");
    const auto all = devices_with({{"VGPU_COUNT", "4"}});
    ASSERT_EQ(all.size(), 4u);
    const auto with = [](const char* visible, int* init = nullptr) {
        return devices_with({{"VGPU_COUNT", "4"}, {"CUDA_VISIBLE_DEVICES", visible}}, init);
    };
    using List = std::vector<std::string>;
    EXPECT_EQ(with("2,0"), (List{all[2], all[0]}));
    EXPECT_EQ(with("1,9,0"), (List{all[1]}));
    EXPECT_EQ(with("3,-1,0"), (List{all[3]}));
    EXPECT_EQ(with("1, 2"), (List{all[1], all[2]}));
    int init = 0;
    EXPECT_TRUE(with("", &init).empty());
    EXPECT_EQ(init, CUDA_ERROR_NO_DEVICE);
    EXPECT_TRUE(with("NoDevFiles", &init).empty());
    EXPECT_EQ(init, CUDA_ERROR_NO_DEVICE);
    EXPECT_TRUE(with("1,1", &init).empty());  // a device named twice hides all
    EXPECT_EQ(init, CUDA_ERROR_NO_DEVICE);
    std::string id = all[3].substr(all[3].find(' ') + 1);
    EXPECT_EQ(with(("GPU-" + id.substr(0, 8)).c_str()), (List{all[3]}));
    id.insert(8, "-").insert(13, "-").insert(18, "-").insert(23, "-");
    EXPECT_EQ(with(("0,GPU-" + id).c_str()), (List{all[0], all[3]}));
}

TEST_F(Device, Uuids_are_the_same_in_every_process_and_differ_between_devices) {
    const auto once = devices_with({{"VGPU_COUNT", "4"}});
    EXPECT_EQ(once, devices_with({{"VGPU_COUNT", "4"}}));
    for (std::size_t i = 1; i < once.size(); ++i)
        EXPECT_NE(once[i].substr(once[i].find(' ')), once[0].substr(once[0].find(' ')));
}

TEST_F(Device, Nodes_with_different_names_have_different_devices) {
    VIRTUAL_ONLY("VGPU_NODE");
    const auto here = devices_with({{"VGPU_NODE", "here"}});
    const auto there = devices_with({{"VGPU_NODE", "there"}});
    EXPECT_EQ(here, devices_with({{"VGPU_NODE", "here"}}));
    ASSERT_EQ(here.size(), there.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
        EXPECT_EQ(here[i].substr(0, here[i].find(' ')), there[i].substr(0, there[i].find(' '))) << "the PCI address";
        EXPECT_NE(here[i], there[i]);
    }
}

TEST_F(Device, A_topology_gives_the_number_of_gpus_and_their_pci_addresses) {
    VIRTUAL_ONLY("VGPU_TOPOLOGY");
    const OwnDevices topology(3);
    const auto all = devices_with({{"VGPU_TOPOLOGY", topology.file()}, {"VGPU_COUNT", ""}});
    ASSERT_EQ(all.size(), 3u);  // the AMD GPU and the NVSwitch are not NVIDIA GPUs
    EXPECT_EQ(all[0].substr(4, 9), ":10:00.0 ");
    EXPECT_EQ(all[1].substr(4, 9), ":30:00.0 ");
    EXPECT_EQ(all[2].substr(4, 9), ":50:00.0 ");
    EXPECT_EQ(devices_with({{"VGPU_TOPOLOGY", topology.file()}, {"VGPU_COUNT", "2"}}).size(), 2u);
}

TEST_F(Device, A_bad_setting_is_named_with_its_value_and_a_remedy) {
    VIRTUAL_ONLY("VGPU_ settings");
    const OwnDevices topology(2);
    const struct {
        vgpu::test::Environment environment;
        const char* message;
    } cases[] = {
        {{{"VGPU_COUNT", "many"}}, "VGPU_COUNT=many: not a number of devices; write"},
        {{{"VGPU_MEMORY", "4Q"}}, "VGPU_MEMORY=4Q: not a size of device memory; write"},
        {{{"VGPU_MEMORY", "0"}}, "VGPU_MEMORY=0: not a size"},
        {{{"VGPU_JITTER", "x"}}, "VGPU_JITTER=x: not a seed; write"},
        {{{"VGPU_TOPOLOGY", "/nowhere.xml"}}, "VGPU_TOPOLOGY=/nowhere.xml: no such readable file; name"},
        {{{"VGPU_TOPOLOGY", "/etc/passwd"}}, "VGPU_TOPOLOGY=/etc/passwd: hwloc cannot load it; name"},
        {{{"VGPU_TOPOLOGY", topology.file()}, {"VGPU_COUNT", "9"}}, "VGPU_COUNT=9: VGPU_TOPOLOGY lists only 2 GPUs"},
        {{{"VGPU_KERNELS", "/nowhere.so"}}, "VGPU_KERNELS=/nowhere.so: /nowhere.so: cannot open shared object file"},
        {{{"VGPU_FAULTS", "cuMemAlloc"}}, "VGPU_FAULTS=cuMemAlloc: not a fault; write"},
        {{{"VGPU_FAULTS", "cuMemAloc@1=hang"}}, "VGPU_FAULTS=cuMemAloc=hang: no such function"},
        {{{"VGPU_FAULTS", "cuMemAlloc@1=CUDA_ERROR_FULL"}},
         "VGPU_FAULTS=cuMemAlloc=CUDA_ERROR_FULL: no such driver error"},
    };
    for (const auto& bad : cases) {
        const auto ended = run("DeviceChild.DISABLED_tells_its_devices", bad.environment);
        EXPECT_NE(ended.output.find(bad.message), std::string::npos) << bad.message << "\n" << ended.output;
        EXPECT_NE(ended.output.find("init 1\n"), std::string::npos) << ended.output;  // CUDA_ERROR_INVALID_VALUE
    }
}

class DeviceQuery : public vgpu::test::WithContext {};

TEST_F(DeviceQuery, Attributes_agree_with_the_functions_that_tell_the_same) {
    VIRTUAL_ONLY("name of the virtual ones");
    char name[64];
    ASSERT_EQ(cuDeviceGetName(name, sizeof name, 1), CUDA_SUCCESS);
    EXPECT_STREQ(name, "Virtual GPU (Switchyard)");
    int domain = 0;
    int bus = 0;
    int slot = 0;
    ASSERT_EQ(cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 1), CUDA_SUCCESS);
    char expected[32];
    snprintf(expected, sizeof expected, "%04x:%02x:%02x.0", domain, bus, slot);
    EXPECT_EQ(bus_id(1), expected);
    CUdevice found = -1;
    EXPECT_EQ(cuDeviceGetByPCIBusId(&found, expected), CUDA_SUCCESS);
    EXPECT_EQ(found, 1);
    EXPECT_EQ(cuDeviceGetByPCIBusId(&found, "ffff:00:00.0"), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetByPCIBusId(&found, "what"), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuDeviceGetPCIBusId(name, 4, 1), CUDA_ERROR_INVALID_VALUE);
    int value = 0;
    EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 3), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(9999), 0), CUDA_ERROR_INVALID_VALUE);
    // Every attribute of the header has an answer.
    for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; ++a)
        EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(a), 0), CUDA_SUCCESS) << a;
}

TEST_F(DeviceQuery, Peer_access_is_between_different_devices_and_enabled_once) {
    NEEDS_DEVICES(2);
    int can = -1;
    EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(can, 1);
    EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(can, 0);
    CUcontext other = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    EXPECT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_EQ(cuCtxDisablePeerAccess(other), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(DeviceQuery, Every_error_has_a_name_and_a_text_and_no_other_code_does) {
    const char* text = nullptr;
    EXPECT_EQ(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
    EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
    EXPECT_STREQ(text, "out of memory");
    EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(text, nullptr);
}
