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
#include "settings/settings.hpp"

namespace {

using namespace swy::device;
using ::testing::Test;

constexpr std::uintptr_t kSomewhere = 0x7f0000000000;
const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

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

// --- states of the driver -------------------------------------------------------------------------------------------

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
        Lane lane;
        EXPECT_EQ(Lane::acquire(fake_context(0), lane), CUDA_ERROR_NOT_INITIALIZED);
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
        contains(driver_problem(), {"fakes/current/libcuda.so.1", "sees no GPU", "CUDA_VISIBLE_DEVICES is \"nonsense\""});
        EXPECT_EQ(device_count(), 0);
        EXPECT_FALSE(on_device(at(kSomewhere)));
    });
}

TEST(Driver, One_that_fails_to_initialise_tells_the_error_and_what_to_do) {
    with_fake("current", [](FakeDriver& fake) {
        fake.init = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
        EXPECT_EQ(load_driver(), DriverState::kUnusable);
        contains(driver_problem(), {"fakes/current/libcuda.so.1", "CUDA_ERROR_FAKED: as the test asked", "restart the node"});
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
        Lane lane;
        Pinned pinned;
        ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
        ASSERT_EQ(Pinned::acquire(fake_context(0), 1000, pinned), 0);
        fake.forget_calls();
        const pid_t child = fork();
        if (child == 0) {
            const bool host = !on_device(at(kSomewhere)) && locate(at(kSomewhere)).kind == Kind::kHost;
            const bool refused = !adopt_loaded_driver() && load_driver() == DriverState::kNotLoaded;
            lane = Lane();
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

// --- answers of real drivers ----------------------------------------------------------------------------------------

TEST(Location, A_host_buffer_costs_one_call_into_the_driver) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.memory[0] = {kSomewhere, 4096};
        int host = 0;
        fake.forget_calls();
        EXPECT_FALSE(on_device(&host));
        EXPECT_EQ(fake.calls(nullptr), 1);
        EXPECT_EQ(fake.calls("cuPointerGetAttribute"), 1);
        EXPECT_FALSE(on_device(nullptr));
        EXPECT_EQ(fake.calls(nullptr), 1);
        EXPECT_TRUE(on_device(at(kSomewhere + 4095)));
        EXPECT_EQ(fake.calls(nullptr), 2);
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

// --- lanes and pools ------------------------------------------------------------------------------------------------

TEST(Lanes, Idle_ones_are_bounded_and_all_are_destroyed_at_the_end) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        {
            std::vector<Lane> lanes(3 * kIdleLanes);
            for (Lane& lane : lanes)
                ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
        }
        EXPECT_EQ(fake.calls("cuStreamCreate"), 3 * kIdleLanes);
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 2 * kIdleLanes);
        Lane used_again;
        ASSERT_EQ(Lane::acquire(fake_context(0), used_again), 0);
        EXPECT_EQ(fake.calls("cuStreamCreate"), 3 * kIdleLanes);
        release_pools();
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 3 * kIdleLanes - 1);
        used_again = Lane();  // given back late: nobody keeps it
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 3 * kIdleLanes);
        EXPECT_EQ(fake.calls("cuEventDestroy_v2"), fake.calls("cuEventCreate"));
    });
}

TEST(Lanes, One_with_unfinished_work_is_not_handed_out_before_that_is_done) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Lane lane;
        ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
        const StreamHandle busy = lane.stream();
        fake.stream_state = CUDA_ERROR_NOT_READY;
        lane = Lane();
        ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
        EXPECT_NE(lane.stream(), busy);
        fake.stream_state = CUDA_SUCCESS;
        Lane another;
        ASSERT_EQ(Lane::acquire(fake_context(0), another), 0);
        EXPECT_EQ(another.stream(), busy);
    });
}

void forget_lanes_of_a_reset_context(FakeDriver& fake) {
    std::array<Lane, 3> lanes;
    for (Lane& lane : lanes)
        ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
    const StreamHandle old = lanes[0].stream();
    lanes[0] = Lane();
    fake.context_id[0] = 77;  // reset and made again, under the same handle
    EXPECT_FALSE(lanes[1].alive());
    lanes[1] = Lane();
    EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 0);
    ASSERT_EQ(Lane::acquire(fake_context(0), lanes[1]), 0);
    EXPECT_NE(lanes[1].stream(), old);
    EXPECT_TRUE(lanes[1].alive());
    fake.primary_active[0] = false;  // reset, and nothing since
    Lane none;
    EXPECT_NE(Lane::acquire(fake_context(0), none), 0);
    EXPECT_FALSE(none);
    for (Lane& lane : lanes)
        lane = Lane();
    release_pools();
    EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 0);
}

TEST(Lanes, Those_of_a_context_that_was_reset_are_forgotten_without_a_call_on_them) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        forget_lanes_of_a_reset_context(fake);
    });
}

TEST(Lanes, Those_of_a_context_that_was_reset_are_forgotten_on_a_device_without_free_memory_too) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.allocations = CUDA_ERROR_OUT_OF_MEMORY;
        forget_lanes_of_a_reset_context(fake);
    });
}

TEST(Lanes, Nothing_they_do_disturbs_a_capture_of_the_programs) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.strict_capture = true;
        {
            Lane lane;
            ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
            int a = 0;
            int b = 0;
            bool done = false;
            EXPECT_EQ(lane.wait_for_program(Sync::kLegacy), 0);
            EXPECT_EQ(lane.copy(&a, &b, sizeof a), 0);
            EXPECT_EQ(lane.record(), 0);
            EXPECT_EQ(lane.query(done), 0);
            EXPECT_TRUE(done);
            Pinned pinned;
            ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, pinned), 0);
            EXPECT_TRUE(pinned.page_locked());
        }
        release_pools();
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), fake.calls("cuStreamCreate"));
        EXPECT_EQ(fake.calls("cuMemHostUnregister"), 1);
        EXPECT_EQ(fake.capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    });
}

TEST(Lanes, Do_not_touch_the_legacy_stream_while_a_stream_that_synchronises_with_it_is_captured) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Lane lane;
        ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
        fake.legacy_capturing = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        EXPECT_EQ(lane.wait_for_program(Sync::kLegacy), 0);
        EXPECT_EQ(fake.calls("cuEventRecord"), 0);
        fake.legacy_capturing = CUDA_SUCCESS;
        EXPECT_EQ(lane.wait_for_program(Sync::kLegacy), 0);
        EXPECT_EQ(fake.calls("cuEventRecord"), 1);
        EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 1);
        EXPECT_EQ(lane.wait_for_program(Sync::kNone), 0);
        EXPECT_EQ(fake.calls("cuCtxSynchronize"), 0);
        EXPECT_EQ(lane.wait_for_program(Sync::kDevice), 0);
        EXPECT_EQ(fake.calls("cuCtxSynchronize"), 1);
    });
}

TEST(Lanes, Copy_more_than_four_gibibytes_and_rows_of_any_pitch) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Lane lane;
        ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
        char* to = reinterpret_cast<char*>(kSomewhere);
        ASSERT_EQ(lane.copy(to, to + (std::size_t{1} << 40), 5'000'000'001), 0);
        EXPECT_EQ(fake.copied, 5'000'000'001u);
        fake.copied = 0;
        // The fake refuses every copy in two dimensions, as real drivers do above CU_DEVICE_ATTRIBUTE_MAX_PITCH.
        ASSERT_EQ(lane.copy_2d(to, 3'000'000'000, to + (std::size_t{1} << 40), 3'000'000'000, 100, 7), 0);
        EXPECT_EQ(fake.copied, 700u);
        ASSERT_EQ(lane.copy(to, to + 8, 0), 0);
        EXPECT_EQ(fake.copied, 700u);
    });
}

TEST(Lanes, Report_the_drivers_errors_as_values) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Lane lane;
        ASSERT_EQ(Lane::acquire(fake_context(0), lane), 0);
        fake.everything = CUDA_ERROR_ILLEGAL_ADDRESS;
        bool done = true;
        EXPECT_EQ(lane.query(done), CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_FALSE(done);
        EXPECT_EQ(lane.record(), CUDA_ERROR_ILLEGAL_ADDRESS);
        Lane second;
        EXPECT_EQ(Lane::acquire(fake_context(0), second), CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_FALSE(second);
        EXPECT_EQ(Lane::acquire(nullptr, second), CUDA_ERROR_INVALID_CONTEXT);
    });
}

void set_pool(std::size_t bytes) {
    swy::settings::Values values;
    values.pinned_pool = bytes;
    swy::settings::install(values, false);
}

TEST(PinnedMemory, What_is_page_locked_never_exceeds_the_pool) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        set_pool(4 << 20);
        std::array<Pinned, 5> blocks;
        for (Pinned& block : blocks)
            ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, block), 0);
        for (int i = 0; i < 4; ++i)
            EXPECT_TRUE(blocks[i].page_locked());
        EXPECT_FALSE(blocks[4].page_locked());
        static_cast<char*>(blocks[4].data())[(1 << 20) - 1] = 1;
        for (Pinned& block : blocks)
            block = Pinned();
        EXPECT_EQ(fake.calls("cuMemHostRegister_v2"), 4);
        // Idle blocks of the wrong size make room.
        ASSERT_EQ(Pinned::acquire(fake_context(0), 3 << 20, blocks[0]), 0);
        EXPECT_TRUE(blocks[0].page_locked());
        EXPECT_EQ(fake.calls("cuMemHostUnregister"), 3);
        ASSERT_EQ(Pinned::acquire(fake_context(0), 5 << 20, blocks[1]), 0);
        EXPECT_FALSE(blocks[1].page_locked());
        for (Pinned& block : blocks)
            block = Pinned();
        release_pools();
        EXPECT_EQ(fake.calls("cuMemHostUnregister"), fake.calls("cuMemHostRegister_v2"));
    });
}

TEST(PinnedMemory, Is_pageable_where_the_driver_cannot_pin) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        set_pool(4 << 20);
        fake.host_register = CUDA_ERROR_NOT_SUPPORTED;
        for (int i = 0; i < 20; ++i) {
            Pinned pinned;
            ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, pinned), 0);
            EXPECT_FALSE(pinned.page_locked());
            static_cast<char*>(pinned.data())[0] = 1;
        }
        fake.host_register = CUDA_SUCCESS;
        Pinned pinned;
        ASSERT_EQ(Pinned::acquire(fake_context(0), 4 << 20, pinned), 0);
        EXPECT_TRUE(pinned.page_locked()) << "failures must not use the pool up";
    });
}

TEST(PinnedMemory, Stays_mapped_when_the_driver_does_not_let_go_of_it) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Pinned pinned;
        ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, pinned), 0);
        auto* data = static_cast<volatile char*>(pinned.data());
        pinned = Pinned();
        fake.host_unregister = CUDA_ERROR_ILLEGAL_ADDRESS;
        release_pools();
        data[0] = 1;  // else another mapping could come to lie over pages that the driver still copies from
        EXPECT_EQ(data[0], 1);
    });
}

// --- traces of a driver ---------------------------------------------------------------------------------------------

TEST(Presence, A_driver_is_expected_from_its_files_alone) {
    namespace fs = std::filesystem;
    const fs::path root = fs::temp_directory_path() / ("swy-presence-" + std::to_string(getpid()));
    const auto make = [&](const char* file) {
        fs::create_directories((root / file).parent_path());
        std::ofstream(root / file) << "x";
    };
    fs::create_directories(root);
    EXPECT_FALSE(driver_files_under(root));
    for (const char* file : {"dev/nvidiactl", "proc/driver/nvidia/version", "dev/nvgpu0", "dev/nvhost-gpu", "dev/dxg"}) {
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
