#include "nccl/background.hpp"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace swy::nccl {

std::shared_ptr<Background> Background::start(device::Context context, std::function<std::string()> work) {
    auto background = std::make_shared<Background>();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([background, context, work = std::move(work)]() mutable {
            {
                const device::ContextScope scope(context);
                background->failure_ = work();
                work = nullptr;  // what it owns goes while the context is current
            }
            background->done_.store(true, std::memory_order_release);
        }).detach();
    } catch (const std::system_error&) {
        background = nullptr;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return background;
}

}  // namespace swy::nccl
