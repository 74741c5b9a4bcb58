// test-timeout: 400
// The test program of the virtual GPUs' NCCL. Each rank of a test runs it too, see ranks.hpp.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
