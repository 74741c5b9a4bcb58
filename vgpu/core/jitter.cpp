// VGPU_JITTER: random delays in worker threads, so that an order that a program does not enforce differs between seeds.
#include <atomic>
#include <ctime>

#include "vgpu/core/settings.hpp"
#include "vgpu/private.h"

namespace {

std::uint64_t scramble(std::uint64_t x) {  // splitmix64's output function
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

std::atomic<std::uint64_t> g_draws{0};

}  // namespace

extern "C" void vgpu_jitter(void) {
    const vgpu::Settings& settings = vgpu::settings();
    if (!settings.jitter)
        return;
    const std::uint64_t draw = scramble(settings.jitter_seed * 0x100000001b3ull + g_draws.fetch_add(1));
    // Most operations start at once and some very late: that reorders more than an even spread does.
    if (draw % 4 != 0)
        return;
    const timespec pause{0, static_cast<long>((draw >> 8) % 400000)};
    nanosleep(&pause, nullptr);
}
