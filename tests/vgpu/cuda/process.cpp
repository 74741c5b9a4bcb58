#include "process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <vector>

extern char** environ;

namespace vgpu::test {

Process::Process(const std::string& test, const Environment& environment) {
    int out[2];
    int in[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(in, O_CLOEXEC) != 0)
        std::abort();
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string text = *variable;
        const std::string name = text.substr(0, text.find('='));
        // What describes this process's devices says nothing of the other's; both are on one node.
        if ((name.rfind("VGPU_", 0) != 0 || name == "VGPU_NODE") && environment.count(name) == 0)
            variables.push_back(text);
    }
    for (const auto& [name, value] : environment)
        variables.push_back(name + "=" + value);
    std::vector<char*> pointers;
    for (std::string& variable : variables)
        pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    std::string filter = "--gtest_filter=" + test;
    char name[] = "/proc/self/exe";
    char disabled[] = "--gtest_also_run_disabled_tests";
    char brief[] = "--gtest_brief=1";
    char* arguments[] = {name, disabled, brief, filter.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, out[1], 2);
    if (posix_spawn(&process_, name, &actions, nullptr, arguments, pointers.data()) != 0)
        std::abort();
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    from_ = out[0];
    to_ = in[1];
}

Process::~Process() {
    if (process_ > 0) {
        kill(SIGKILL);
        waitpid(process_, nullptr, 0);
    }
    close(from_);
    close(to_);
}

bool Process::read_line(std::string& line) {
    while (true) {
        if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
            line = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            output += line + "\n";
            return true;
        }
        char bytes[4096];
        pollfd ready{from_, POLLIN, 0};
        const ssize_t count = poll(&ready, 1, 60000) == 1 ? read(from_, bytes, sizeof bytes) : -1;
        if (count <= 0)
            return false;
        buffer_.append(bytes, static_cast<std::size_t>(count));
    }
}

std::string Process::await(const std::string& word) {
    std::string line;
    while (read_line(line))
        if (line.rfind(word, 0) == 0)
            return line.substr(word.size());
    ADD_FAILURE() << "the process ended without saying " << word << ":\n" << output;
    return {};
}

void Process::tell(const std::string& line) {
    const std::string text = line + "\n";
    EXPECT_EQ(write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void Process::kill(int signal) {
    ::kill(process_, signal);
}

void Process::finish() {
    std::string line;
    while (read_line(line)) {
    }
    output += buffer_;
    for (int tries = 0; waitpid(process_, &status, WNOHANG) == 0; ++tries) {
        if (tries == 600)
            kill(SIGKILL);
        usleep(100000 / (tries < 20 ? 20 : 1));
    }
    process_ = -1;
}

Ended run(const std::string& test, const Environment& environment) {
    Process process(test, environment);
    process.finish();
    return {process.status, process.output};
}

OwnDevices::OwnDevices(int count) {
    char name[] = "/tmp/vgpu-topology-XXXXXX";
    close(mkstemp(name));
    file_ = name;
    std::random_device random;
    const unsigned domain = random() % 0xfffe + 1;
    std::ofstream xml(file_);
    xml << R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1048576"/>
    <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3">
      <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
    </object>
)";
    char line[512];
    const auto add = [&](int index, unsigned bus, const char* identity) {
        std::snprintf(line, sizeof line,
                      "    <object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" "
                      "bridge_pci=\"%04x:[%02x-%02x]\">\n"
                      "      <object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"%04x:%02x:00.0\" pci_type=\"%s\" "
                      "pci_link_speed=\"0\"/>\n"
                      "    </object>\n",
                      100 + 2 * index, domain, bus, bus, 101 + 2 * index, domain, bus, identity);
        xml << line;
    };
    int index = 0;
    for (; index < count; ++index)
        add(index, static_cast<unsigned>(0x10 + index * 0x20), "0302 [10de:2330] [10de:16c1] a1");
    add(index, 0xf0, "0300 [1002:73bf] [1002:0e3a] c1");      // a GPU, not NVIDIA's
    add(index + 1, 0xf1, "0680 [10de:1af1] [10de:1af1] a1");  // NVIDIA's, not a GPU: a switch
    xml << "  </object>\n</topology>\n";
}

OwnDevices::~OwnDevices() {
    unlink(file_.c_str());
}

}  // namespace vgpu::test

// Three devices unless a test sets another number: the tests need a second one, and one that is not the last.
int main(int argc, char** argv) {
    signal(SIGPIPE, SIG_IGN);  // a process that died early fails its test, not this program
    if (getenv("VGPU_TOPOLOGY") == nullptr)
        setenv("VGPU_COUNT", "3", 0);
#ifdef TWINS
    setenv("VGPU_KERNELS", TWINS, 0);
#endif
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
