// test-timeout: 400
// The test program of the virtual GPUs' NCCL. It is also what each rank of a test runs: see ranks.hpp.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
