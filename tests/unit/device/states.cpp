// What the device layer makes of drivers that are missing, old, broken or in an odd state.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/presence.hpp"
#include "in_child.hpp"

namespace {

using namespace swy::device;
using ::testing::Test;

constexpr std::uintptr_t kSomewhere = 0x7f0000000000;
const void* at(std::uintptr_t address) {
    return reinterpret_cast<const void*>(address);
}

bool node_has_real_driver() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library != nullptr)
        dlclose(library);
    return library != nullptr;
}

void contains(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
        EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}

// States of the driver.

TEST(Driver, Without_one_all_memory_is_the_hosts_and_nothing_fails) {
    in_child("", [](void*) {
        int host = 0;
        EXPECT_FALSE(adopt_loaded_driver());
        EXPECT_EQ(driver_state(), DriverState::kNotLoaded);
        EXPECT_FALSE(on_device(&host));
        EXPECT_FALSE(on_device(nullptr));
        EXPECT_EQ(locate(&host).kind, Kind::kHost);
        EXPECT_EQ(device_count(), 0);
        EXPECT_EQ(driver_text(), "");
        Identity identity;
        EXPECT_FALSE(identify(0, identity));
        Stream lane;
        EXPECT_EQ(Stream::acquire(fake_context(0), lane), CUDA_ERROR_NOT_INITIALIZED);
        contains(describe(CUDA_ERROR_NOT_INITIALIZED), {"CUDA_ERROR_NOT_INITIALIZED"});
        Pinned pinned;
        ASSERT_EQ(Pinned::acquire(nullptr, 100, pinned), 0);
        static_cast<char*>(pinned.data())[99] = 1;
        release_pools();
    });
}

TEST(Driver, Its_absence_is_explained_with_the_file_and_the_remedy) {
    in_child("", [](void*) {
        if (node_has_real_driver())
            return;  // then the absence cannot be played
        EXPECT_EQ(load_driver(), DriverState::kNotLoaded);
        contains(driver_problem(), {"libcuda.so.1", "LD_LIBRARY_PATH"});
    });
}

TEST(Driver, One_without_a_device_names_the_setting_that_hides_devices) {
    with_fake("current", [](FakeDriver& fake) {
        setenv("CUDA_VISIBLE_DEVICES", "nonsense", 1);
        fake.init = CUDA_ERROR_NO_DEVICE;
        EXPECT_EQ(load_driver(), DriverState::kUnusable);
        EXPECT_EQ(driver_state(), DriverState::kUnusable);
        contains(driver_problem(),
                 {"fakes/current/libcuda.so.1", "sees no GPU", "CUDA_VISIBLE_DEVICES is \"nonsense\""});
        EXPECT_EQ(device_count(), 0);
        EXPECT_FALSE(on_device(at(kSomewhere)));
    });
}

TEST(Driver, One_that_fails_to_initialise_tells_the_error_and_what_to_do) {
    with_fake("current", [](FakeDriver& fake) {
        fake.init = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
        EXPECT_EQ(load_driver(), DriverState::kUnusable);
        contains(driver_problem(),
                 {"fakes/current/libcuda.so.1", "CUDA_ERROR_FAKED: as the test asked", "restart the node"});
    });
    with_fake("current", [](FakeDriver& fake) {
        fake.init = CUDA_ERROR_STUB_LIBRARY;
        EXPECT_EQ(load_driver(), DriverState::kUnusable);
        contains(driver_problem(), {"stub", "LD_LIBRARY_PATH"});
    });
}

TEST(Driver, One_that_lacks_entry_points_is_unusable_and_the_first_is_named) {
    with_fake("incomplete", [](FakeDriver& fake) {
        EXPECT_FALSE(adopt_loaded_driver());
        EXPECT_EQ(driver_state(), DriverState::kUnusable);
        contains(driver_problem(), {"fakes/incomplete/libcuda.so.1", "cuEventQuery", "1 more", "CUDA 11.0"});
        EXPECT_FALSE(on_device(at(kSomewhere)));
        EXPECT_EQ(load_driver(), DriverState::kUnusable);
        EXPECT_EQ(fake.calls("cuInit"), 0);
    });
}

TEST(Driver, Entry_points_come_from_cuGetProcAddress_where_there_is_one) {
    with_fake("current", [](FakeDriver& fake) {
        EXPECT_TRUE(adopt_loaded_driver());
        EXPECT_GT(fake.calls("cuGetProcAddress_v2"), 20);
        contains(driver_text(), {"CUDA 12.8", "fakes/current/libcuda.so.1"});
    });
    with_fake("old", [](FakeDriver&) {
        EXPECT_TRUE(adopt_loaded_driver());
        EXPECT_EQ(driver_state(), DriverState::kLoaded);
        contains(driver_text(), {"CUDA 12.4"});
    });
}

TEST(Driver, Adopting_one_neither_initialises_it_nor_makes_a_context) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_TRUE(adopt_loaded_driver());
        fake.memory[0] = {kSomewhere, 4096};
        EXPECT_FALSE(on_device(at(kSomewhere))) << "before cuInit";
        EXPECT_EQ(locate(at(kSomewhere)).kind, Kind::kHost);
        EXPECT_EQ(fake.calls("cuInit"), 0);
        EXPECT_EQ(fake.calls("cuDevicePrimaryCtxRetain"), 0);
    });
}

TEST(Driver, Not_even_the_same_one_is_taken_over_by_a_forked_child) {
    with_fake("current", [](FakeDriver& fake) {
        fake.memory[0] = {kSomewhere, 4096};
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        ASSERT_TRUE(on_device(at(kSomewhere)));
        Stream lane;
        Pinned pinned;
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        ASSERT_EQ(Pinned::acquire(fake_context(0), 1000, pinned), 0);
        fake.forget_calls();
        const pid_t child = fork();
        if (child == 0) {
            const bool host = !on_device(at(kSomewhere)) && locate(at(kSomewhere)).kind == Kind::kHost;
            const bool refused = !adopt_loaded_driver() && load_driver() == DriverState::kNotLoaded;
            lane = Stream();
            pinned = Pinned();
            release_pools();
            _exit(host && refused && fake.calls(nullptr) == 0 ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
        EXPECT_TRUE(on_device(at(kSomewhere))) << "in the parent nothing changed";
    });
}

// Answers of real drivers.

TEST(Location, A_host_buffer_costs_one_call_into_the_driver) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.memory[0] = {kSomewhere, 4096};
        fake.forget_calls();
        EXPECT_FALSE(on_device(at(kSomewhere + 4096)));
        EXPECT_EQ(fake.calls(nullptr), 1);
        EXPECT_EQ(fake.calls("cuPointerGetAttribute"), 1);
        EXPECT_TRUE(on_device(at(kSomewhere + 4095)));
        EXPECT_EQ(fake.calls(nullptr), 2);
        EXPECT_FALSE(on_device(nullptr));
    });
}

TEST(Location, Static_data_costs_none) {
    with_fake("current", [](FakeDriver& fake) {
        static int data = 1;
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.forget_calls();
        EXPECT_FALSE(on_device(&data));
        EXPECT_EQ(fake.calls(nullptr), 0);
    });
}

TEST(Location, Managed_memory_that_the_driver_calls_the_hosts_is_device_memory_all_the_same) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.memory[0] = {kSomewhere, 4096, CU_MEMORYTYPE_HOST, true, CU_DEVICE_CPU, fake_context(1)};
        fake.primary_active[1] = true;
        EXPECT_TRUE(on_device(at(kSomewhere)));
        const Location location = locate(at(kSomewhere + 10));
        EXPECT_EQ(location.kind, Kind::kManaged);
        EXPECT_EQ(location.ordinal, 1) << "its context's device, as the driver names the processor";
        EXPECT_TRUE(location.primary);
        EXPECT_EQ(location.begin, kSomewhere);
        EXPECT_EQ(location.end, kSomewhere + 4096);
    });
}

TEST(Location, Memory_without_a_context_gets_the_primary_one_only_where_the_program_has_it) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.memory[0] = {kSomewhere, 4096, CU_MEMORYTYPE_DEVICE, false, 0, nullptr};
        fake.memory[1] = {kSomewhere + 8192, 4096, CU_MEMORYTYPE_DEVICE, false, 1, nullptr};
        EXPECT_EQ(locate(at(kSomewhere)).context, fake_context(0));
        EXPECT_EQ(fake.calls("cuDevicePrimaryCtxRetain"), fake.calls("cuDevicePrimaryCtxRelease_v2"));
        fake.forget_calls();
        const Location other = locate(at(kSomewhere + 8192));
        EXPECT_EQ(other.ordinal, 1);
        EXPECT_EQ(other.context, nullptr);
        EXPECT_EQ(fake.calls("cuDevicePrimaryCtxRetain"), 0) << "a retained context would have been made";
    });
}

TEST(Location, A_driver_that_refuses_the_question_for_all_attributes_is_asked_for_each) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.memory[0] = {kSomewhere, 4096, CU_MEMORYTYPE_DEVICE, false, 1, fake_context(1)};
        fake.plural = CUDA_ERROR_INVALID_VALUE;
        const Location location = locate(at(kSomewhere + 5));
        EXPECT_EQ(location.kind, Kind::kDevice);
        EXPECT_EQ(location.ordinal, 1);
        EXPECT_EQ(location.context, fake_context(1));
        int host = 0;
        EXPECT_EQ(locate(&host).kind, Kind::kHost);
    });
}

TEST(Location, When_the_programs_context_has_died_only_memory_the_host_can_read_passes_as_the_hosts) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        void* unreadable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(unreadable, MAP_FAILED);
        int host = 0;
        for (const CUresult sticky : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_UNKNOWN}) {
            fake.everything = sticky;
            errno = 17;
            EXPECT_FALSE(on_device(&host));
            EXPECT_EQ(locate(&host).kind, Kind::kHost);
            EXPECT_TRUE(on_device(unreadable));
            EXPECT_TRUE(locate(unreadable).on_device());
            EXPECT_EQ(errno, 17);
        }
        for (const CUresult harmless : {CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_STUB_LIBRARY}) {
            fake.everything = harmless;
            EXPECT_FALSE(on_device(unreadable)) << harmless;
        }
    });
}

TEST(Identity, Instances_of_one_GPU_in_MIG_mode_differ) {
    with_fake("current", [](FakeDriver&) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Identity first;
        Identity second;
        ASSERT_TRUE(identify(0, first));
        ASSERT_TRUE(identify(1, second));
        EXPECT_EQ(first.uuid[0], 0xb0);
        EXPECT_EQ(second.uuid[15], 0xb1);
        EXPECT_EQ(first.pci_bus, second.pci_bus);
        EXPECT_FALSE(identify(2, second));
    });
}

// Traces of a driver.

TEST(Presence, A_driver_is_expected_from_its_files_alone) {
    namespace fs = std::filesystem;
    const fs::path root = fs::temp_directory_path() / ("swy-presence-" + std::to_string(getpid()));
    const auto make = [&](const char* file) {
        fs::create_directories((root / file).parent_path());
        std::ofstream(root / file) << "x";
    };
    fs::create_directories(root);
    EXPECT_FALSE(driver_files_under(root));
    for (const char* file :
         {"dev/nvidiactl", "proc/driver/nvidia/version", "dev/nvgpu0", "dev/nvhost-gpu", "dev/dxg"}) {
        make(file);
        EXPECT_TRUE(driver_files_under(root)) << file;
        fs::remove_all(root / "dev");
        fs::remove_all(root / "proc");
    }
    const std::string folder = root / "lib";
    EXPECT_FALSE(driver_in_path(folder));
    make("lib/libcuda.so.1");
    EXPECT_TRUE(driver_in_path(folder));
    EXPECT_TRUE(driver_in_path("/nowhere::" + folder));
    EXPECT_TRUE(driver_in_path("/nowhere;" + folder + ";/else"));
    EXPECT_FALSE(driver_in_path(""));
    EXPECT_FALSE(driver_in_path(root.string()));
    fs::remove_all(root);
}

}  // namespace
