// Where staging memory should lie, which GPU is nearest to memory, and which RDMA devices NCCL is told to use:
// tests/topology/memory.tsv, near.tsv and nics.tsv, and what this machine's kernel says of the first two.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "read_cases.hpp"
#include "topology/memory.hpp"
#include "topology/nics.hpp"

namespace swy::topology {
namespace {

Machine machine_of(const Case& one) {
    Machine machine;
    EXPECT_EQ(read_machine((cases_folder() / (one.at("machine") + ".xml")).string(), machine), "");
    return machine;
}

TEST(Memory, Lies_on_the_nodes_that_are_written_down) {
    const std::vector<Case> cases = read_cases(cases_folder() / "memory.tsv");
    EXPECT_GE(cases.size(), 8u);
    for (const Case& one : cases) {
        SCOPED_TRACE(one.at("id") + ": " + one.at("why"));
        std::string nodes;
        for (const unsigned node : near_nodes(machine_of(one), one.at("pci")))
            nodes += (nodes.empty() ? "" : ",") + std::to_string(node);
        EXPECT_EQ(nodes.empty() ? "none" : nodes, one.at("expect"));
    }
}

// The policy of an address, as the kernel has it; -1 where it does not tell (containers may forbid the question).
int policy_of(void* address, unsigned long& nodes) {
    int mode = -1;
    constexpr int kOfAddress = 2;  // MPOL_F_ADDR
    nodes = 0;
    return syscall(SYS_get_mempolicy, &mode, &nodes, sizeof nodes * 8, address, kOfAddress) == 0 ? mode : -1;
}

TEST(Memory, Is_preferred_where_it_is_asked_for_and_still_there_where_the_kernel_refuses) {
    constexpr std::size_t kBytes = 1 << 20;
    void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(data, MAP_FAILED);
    EXPECT_FALSE(prefer_nodes(data, kBytes, {}));
    EXPECT_FALSE(prefer_nodes(data, kBytes, {1000})) << "no machine has node 1000";
    const bool taken = prefer_nodes(data, kBytes, {0});
    static_cast<char*>(data)[kBytes - 1] = 1;
    unsigned long nodes = 0;
    const int policy = policy_of(data, nodes);
    munmap(data, kBytes);
    if (!taken || policy < 0)
        GTEST_SKIP() << "the kernel takes or tells no policy here";
    EXPECT_TRUE(policy == 1 || policy == 5) << policy;  // MPOL_PREFERRED, MPOL_PREFERRED_MANY: never a strict one
    EXPECT_EQ(nodes, 1u);
}

TEST(Memory, Of_a_device_that_the_machine_does_not_have_is_anywhere) {
    EXPECT_TRUE(nodes_near_device("ffff:ff:1f.0").empty());
}

TEST(Nearest_GPU, Is_that_which_is_written_down) {
    const std::vector<Case> cases = read_cases(cases_folder() / "near.tsv");
    EXPECT_GE(cases.size(), 10u);
    for (const Case& one : cases) {
        SCOPED_TRACE(one.at("id") + ": " + one.at("why"));
        std::vector<std::string> pci;
        std::istringstream list(one.at("pci"));
        for (std::string address; std::getline(list, address, ',');)
            pci.push_back(address);
        EXPECT_EQ(pci.at(nearest_gpu(machine_of(one), std::stoi(one.at("node")), pci)), one.at("expect"));
    }
}

TEST(Nodes, Of_pages_are_the_kernels) {
    constexpr std::size_t kBytes = 1 << 20;
    void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(data, MAP_FAILED);
    EXPECT_EQ(node_of(data), -1) << "there is no page before it is touched";
    static_cast<char*>(data)[0] = 1;
    int kernels = -1;
    constexpr int kNodeOfAddress = 1 | 2;  // MPOL_F_NODE | MPOL_F_ADDR
    const bool told = syscall(SYS_get_mempolicy, &kernels, nullptr, 0UL, data, kNodeOfAddress) == 0;
    const int node = node_of(data);
    munmap(data, kBytes);
    EXPECT_EQ(node_of(data), -1) << "nor after it is gone";
    if (!told || node < 0)
        GTEST_SKIP() << "the kernel does not tell where pages are";
    EXPECT_EQ(node, kernels);
}

TEST(Nics, Are_those_that_are_written_down) {
    const std::vector<Case> cases = read_cases(cases_folder() / "nics.tsv");
    EXPECT_GE(cases.size(), 8u);
    for (const Case& one : cases) {
        SCOPED_TRACE(one.at("id") + ": " + one.at("why"));
        Machine machine = machine_of(one);
        for (PciDevice& nic : machine.nics)
            if (("," + one.at("down") + ",").find("," + nic.name + ",") != std::string::npos)
                nic.active = false;
        const std::string told = rdma_devices(machine);
        EXPECT_EQ(told.empty() ? "none" : told, one.at("expect"));
    }
}

class Telling : public testing::Test {
  protected:
    void SetUp() override {
        setenv("HWLOC_XMLFILE", (cases_folder() / "storage_nics.xml").c_str(), 1);
        setenv("NCCL_CONF_FILE", "/dev/null", 1);
        unsetenv("NCCL_IB_HCA");
        unsetenv("NCCL_NET");
    }
    void TearDown() override {
        for (const char* name : {"HWLOC_XMLFILE", "NCCL_CONF_FILE", "NCCL_IB_HCA", "NCCL_NET"})
            unsetenv(name);
    }
};

TEST_F(Telling, Is_done_where_nobody_has) {
    EXPECT_EQ(rdma_devices_to_tell(), "=mlx5_0,mlx5_1");
}

TEST_F(Telling, Leaves_the_users_own_words_alone) {
    setenv("NCCL_IB_HCA", "mlx5_2", 1);
    EXPECT_EQ(rdma_devices_to_tell(), "");
    unsetenv("NCCL_IB_HCA");
    setenv("NCCL_NET", "Socket", 1);
    EXPECT_EQ(rdma_devices_to_tell(), "");
    unsetenv("NCCL_NET");
    const std::string file = "/tmp/switchyard-nccl-" + std::to_string(getpid()) + ".conf";
    std::ofstream(file) << "NCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5_2\n";
    setenv("NCCL_CONF_FILE", file.c_str(), 1);
    EXPECT_EQ(rdma_devices_to_tell(), "");
    std::filesystem::remove(file);
}

}  // namespace
}  // namespace swy::topology
