#include "child.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace vgpu::test {

Child run_child(const std::string& test, const std::map<std::string, std::string>& environment) {
    std::string command = "exec env";
    for (const auto& [name, value] : environment)
        command += " '" + name + "=" + value + "'";
    command += " timeout 60 /proc/" + std::to_string(getpid()) +
               "/exe --gtest_also_run_disabled_tests --gtest_brief=1 --gtest_filter=" + test + " 2>&1";
    Child child;
    FILE* const pipe = popen(command.c_str(), "r");
    char line[512];
    while (fgets(line, sizeof line, pipe) != nullptr)
        child.output += line;
    child.status = pclose(pipe);
    // timeout(1) dies of the signal that ended its command, or passes it on as 128 + signal.
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) > 128)
        child.status = WEXITSTATUS(child.status) - 128;
    return child;
}

}  // namespace vgpu::test

// Three devices unless the test is run with another number: the tests need a second one, and one that is not the last.
int main(int argc, char** argv) {
    setenv("VGPU_COUNT", "3", 0);
#ifdef TWINS
    setenv("VGPU_KERNELS", TWINS, 0);
#endif
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
