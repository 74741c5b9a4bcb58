// A futex on which a rank sleeps while an operation waits for its peers, in memory that the ranks of a host share.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vgpu::nccl {

struct alignas(64) Bell {
    std::atomic<std::uint32_t> rung{0};
    std::atomic<std::uint32_t> sleeper{0};

    // Called by a peer that has written data for this rank, or has freed space for its data.
    void ring() {
        rung.fetch_add(1);
        if (sleeper.load() != 0)
            syscall(SYS_futex, &rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }

    // Returns once the bell has rung since `seen` was read, or after a while: callers look again at what they wait for.
    void sleep(std::uint32_t seen) {
        sleeper.store(1);
        const timespec longest{0, 20'000'000};
        syscall(SYS_futex, &rung, FUTEX_WAIT, seen, &longest, nullptr, 0);
        sleeper.store(0);
    }
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

}  // namespace vgpu::nccl
