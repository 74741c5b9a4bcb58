// A thread on which the program's signal handlers do not run.
#pragma once

#include <csignal>
#include <functional>
#include <thread>
#include <utility>

#include <pthread.h>

namespace vgpu::nccl {

inline std::thread quiet_thread(std::function<void()> work) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(std::move(work));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

}  // namespace vgpu::nccl
