// What a process reads of another one that ends meanwhile: it has ended, whenever that happens.
#include "report/processes.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace {

using namespace swy;

TEST(Processes, KnowsItself) {
    EXPECT_TRUE(report::process_lives(getpid()));
    EXPECT_NE(report::process_began(getpid()), 0U);
}

// The file of a process can be opened, and no longer be read, when the process ends in between.
TEST(Processes, MayEndWhileTheyAreRead) {
    std::atomic<pid_t> child{getpid()};
    std::atomic<bool> over{false};
    std::thread reader([&] {
        while (!over) {
            report::process_lives(child);
            report::process_began(child);
            report::command_line_of(child);
        }
    });
    for (int i = 0; i < 2000; ++i) {
        const pid_t made = vfork();  // fork() copies the sanitizers' memory, too
        if (made == 0)
            _exit(0);
        ASSERT_GT(made, 0);
        child = made;
        waitpid(made, nullptr, 0);
        EXPECT_FALSE(report::process_lives(made));
    }
    over = true;
    reader.join();
}

}  // namespace
