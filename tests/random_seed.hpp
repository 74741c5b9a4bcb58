// The seed of a random test: what SWY_RANDOM_SEED says, so that a failure can be repeated, or else one drawn anew. The
// test prints it. Test programs only.
#pragma once

#include <cstdlib>
#include <random>

inline unsigned random_seed() {
    const char* given = std::getenv("SWY_RANDOM_SEED");
    return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                            : std::random_device{}() % 100000000;
}
