// Each state of a driver needs a process of its own: a driver that was once adopted stays.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "fake_driver.h"

// The build folder of these tests' own libraries.
inline std::string built(const std::string& file) {
    const char* build = std::getenv("SWY_BUILDDIR");
    return std::string(build != nullptr ? build : ".") + "/tests/unit/device/" + file;
}

// Runs `body` in a child process that has loaded `library` ("" for none), as a program would have; what fails there
// fails here. The child ends without exit handlers and after a minute at the latest.
template <typename Body>
void in_child(const std::string& library, Body body) {
    std::fflush(nullptr);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(60);
        void* loaded = library.empty() ? nullptr : dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (!library.empty() && loaded == nullptr) {
            ADD_FAILURE() << dlerror();
        } else {
            body(loaded);
        }
        std::fflush(nullptr);
        _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child's wait status " << status;
}

// The same with a stand-in driver, whose control block `body` gets.
template <typename Body>
void with_fake(const char* variant, Body body) {
    in_child(built(std::string("fakes/") + variant + "/libcuda.so.1"), [&](void* library) {
        auto* control = reinterpret_cast<FakeDriver* (*)()>(dlsym(library, "fake_driver"));
        ASSERT_NE(control, nullptr);
        body(*control());
    });
}
