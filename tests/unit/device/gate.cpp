// The gate notices a driver that is loaded in mid-life, and leaves the program's own libraries alone. Each test is a
// process of its own, since libraries that were once loaded show.
#include "fastpath/driver_watch.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "in_child.hpp"

namespace {

namespace fs = std::filesystem;
namespace driver_watch = swy::driver_watch;

void* load(const std::string& file) {
    void* library = dlopen(file.c_str(), RTLD_NOW);
    EXPECT_NE(library, nullptr) << dlerror();
    return library;
}

int value_of(void* plugin) {
    return reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_value"))();
}

std::string driver(const char* variant = "current") {
    return built(std::string("fakes/") + variant + "/libcuda.so.1");
}

// A folder that goes with the test.
struct Folder {
    Folder() : path(fs::temp_directory_path() / ("swy-gate-" + std::to_string(getpid()))) {
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    // A copy is another library to the dynamic linker.
    std::string copy(const std::string& from, const std::string& name) const {
        fs::remove(path / name);
        fs::copy_file(built("fakes/" + from), path / name);
        return path / name;
    }
    fs::path path;
};

TEST(Gate, Is_closed_and_looks_at_nothing_before_MPI_is_up) {
    in_child("", [](void*) {
        EXPECT_EQ(driver_watch::state, driver_watch::State::kClosed);
        EXPECT_FALSE(driver_watch::changed());
        load(driver());
        EXPECT_FALSE(driver_watch::changed());
        EXPECT_TRUE(driver_watch::closed());
    });
}

TEST(Gate, Stays_closed_at_the_price_of_two_loads_while_nothing_is_loaded) {
    in_child("", [](void*) {
        driver_watch::before_init();
        driver_watch::watch();
        EXPECT_FALSE(driver_watch::changed()) << "else every call would ask the dynamic linker";
        EXPECT_TRUE(driver_watch::closed());
    });
}

TEST(Gate, Opens_at_once_for_a_driver_that_is_there_at_MPI_Init) {
    in_child(driver(), [](void*) {
        driver_watch::before_init();
        driver_watch::watch();
        EXPECT_EQ(driver_watch::state, driver_watch::State::kOpen);
        EXPECT_FALSE(driver_watch::closed());
        EXPECT_FALSE(driver_watch::changed());
        EXPECT_EQ(swy::device::driver_state(), swy::device::DriverState::kLoaded);
    });
}

TEST(Gate, Opens_in_the_first_call_after_a_driver_was_loaded) {
    in_child("", [](void*) {
        driver_watch::before_init();
        driver_watch::watch();
        EXPECT_TRUE(driver_watch::closed());
        void* other = load(built("fakes/plugin_one.so"));
        EXPECT_TRUE(driver_watch::closed());
        EXPECT_TRUE(driver_watch::closed());
        load(driver());
        EXPECT_FALSE(driver_watch::closed());
        EXPECT_EQ(driver_watch::state, driver_watch::State::kOpen);
        EXPECT_FALSE(driver_watch::changed()) << "there is nothing left to look for";
        dlclose(other);
        EXPECT_FALSE(driver_watch::closed());
    });
}

TEST(Gate, Opens_for_a_driver_loaded_while_another_librarys_place_in_the_list_is_taken_again) {
    in_child("", [](void*) {
        const Folder folder;
        driver_watch::before_init();
        driver_watch::watch();
        for (int i = 0; i < 20; ++i) {
            void* plugin = load(folder.copy("plugin_one.so", "plugin.so"));
            EXPECT_TRUE(driver_watch::closed());
            dlclose(plugin);
        }
        load(driver());
        EXPECT_FALSE(driver_watch::closed());
    });
}

TEST(Gate, Stays_closed_for_a_driver_that_is_unusable) {
    in_child("", [](void*) {
        driver_watch::before_init();
        driver_watch::watch();
        load(driver("incomplete"));
        EXPECT_TRUE(driver_watch::closed());
        EXPECT_TRUE(driver_watch::closed());
        EXPECT_EQ(swy::device::driver_state(), swy::device::DriverState::kUnusable);
    });
}

TEST(Gate, Lets_the_program_rebuild_and_reload_a_library_of_its_own) {
    for (const bool before_mpi : {true, false})
        in_child("", [before_mpi](void*) {
            const Folder folder;
            void* plugin = before_mpi ? load(folder.copy("plugin_one.so", "plugin.so")) : nullptr;
            driver_watch::before_init();
            driver_watch::watch();
            if (!before_mpi)
                plugin = load(folder.copy("plugin_one.so", "plugin.so"));
            EXPECT_TRUE(driver_watch::closed());
            EXPECT_EQ(value_of(plugin), 1);
            dlclose(plugin);
            EXPECT_TRUE(driver_watch::closed());
            plugin = load(folder.copy("plugin_two.so", "plugin.so"));
            EXPECT_EQ(value_of(plugin), 2) << "the old library was kept loaded";
            EXPECT_TRUE(driver_watch::closed());
            load(driver());
            EXPECT_FALSE(driver_watch::closed());
        });
}

TEST(Gate, Holds_a_library_that_MPI_loaded_only_until_MPI_goes_down) {
    in_child("", [](void*) {
        const std::string file = built("fakes/plugin_one.so");
        driver_watch::before_init();
        void* component = load(file);
        driver_watch::watch();
        EXPECT_FALSE(driver_watch::changed());
        dlclose(component);
        EXPECT_TRUE(driver_watch::closed()) << "reads the entry of a library that is still there";
        driver_watch::unwatch();
        EXPECT_EQ(dlopen(file.c_str(), RTLD_NOLOAD | RTLD_LAZY), nullptr) << "it is still held";
        load(driver());
        EXPECT_TRUE(driver_watch::closed());
    });
}

TEST(Gate, Notices_a_driver_while_threads_load_and_unload_libraries) {
    in_child("", [](void*) {
        const Folder folder;
        constexpr int kLoaders = 3;
        constexpr int kCallers = 3;
        std::vector<std::string> files;
        for (int i = 0; i < kLoaders; ++i)
            files.push_back(folder.copy("plugin_one.so", "plugin" + std::to_string(i) + ".so"));
        driver_watch::before_init();
        driver_watch::watch();
        std::atomic<bool> stop{false};
        std::atomic<bool> driver_loaded{false};
        std::atomic<int> opened{0};
        std::atomic<int> missed{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kLoaders; ++i)
            threads.emplace_back([&, i] {
                while (!stop)
                    dlclose(dlopen(files[i].c_str(), RTLD_NOW));
            });
        for (int i = 0; i < kCallers; ++i)
            threads.emplace_back([&] {
                bool open = false;
                while (!open && !stop) {
                    const bool must_be_open = driver_loaded;
                    open = !driver_watch::closed();
                    if (must_be_open && !open)
                        ++missed;
                }
                opened += open ? 1 : 0;
            });
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_EQ(opened, 0);
        load(driver());
        driver_loaded = true;
        for (int i = 0; i < 2000 && opened < kCallers; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stop = true;
        for (std::thread& thread : threads)
            thread.join();
        EXPECT_EQ(opened, kCallers);
        EXPECT_EQ(missed, 0) << "calls after the driver was loaded that passed a closed gate";
    });
}

}  // namespace
