// Starts a process for tests of a whole process (its first CUDA call, its environment, its death): the test program
// runs one of its own DISABLED_ tests in it.
#pragma once

#include <map>
#include <string>

namespace vgpu::test {

struct Child {
    int status = 0;      // as waitpid gives it
    std::string output;  // standard output and standard error
    bool passed() const { return status == 0; }
    bool killed_by(int signal) const { return (status & 0x7f) == signal; }
};

// `test` is Suite.DISABLED_Name; `environment` adds to this process's.
Child run_child(const std::string& test, const std::map<std::string, std::string>& environment = {});

}  // namespace vgpu::test
