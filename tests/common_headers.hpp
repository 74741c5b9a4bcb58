// The headers that most tests include, to be compiled once (tests/local.mk). A test includes all that it uses by
// itself.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#if __has_include(<gtest/gtest.h>)
#include <gtest/gtest.h>
#endif
