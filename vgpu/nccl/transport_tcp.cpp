#include "vgpu/nccl/transport_tcp.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgpu/nccl/debug.hpp"

namespace vgpu::nccl {
namespace {

constexpr std::size_t kBuffer = 128 << 10;

}  // namespace

TcpChannel::TcpChannel(Fd connection) : connection_(std::move(connection)), buffer_(kBuffer) {}

TcpChannel::~TcpChannel() {
    shut_down();
}

std::size_t TcpChannel::write(const void* data, std::size_t bytes) {
    if (broken_)
        return 0;
    const ssize_t sent = send(connection_.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;  // a lost peer is the watcher's finding
}

std::span<const std::byte> TcpChannel::peek() {
    const std::lock_guard guard(receiving_);
    // Elements must not be torn: what is left of the last read moves to the front, where the next bytes join it.
    if (begin_ > 0 && end_ - begin_ < 64) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ < buffer_.size()) {
        const ssize_t got = recv(connection_.get(), buffer_.data() + end_, buffer_.size() - end_, MSG_DONTWAIT);
        if (got > 0) {
            remember(buffer_.data() + end_, static_cast<std::size_t>(got));
            end_ += static_cast<std::size_t>(got);
        }
    }
    return {buffer_.data() + begin_, end_ - begin_};
}

void TcpChannel::consume(std::size_t bytes) {
    begin_ += bytes;
}

void TcpChannel::remember(const std::byte* data, std::size_t bytes) {
    if (bytes >= last_.size()) {
        std::copy(data + bytes - last_.size(), data + bytes, last_.begin());
        return;
    }
    std::move(last_.begin() + static_cast<std::ptrdiff_t>(bytes), last_.end(), last_.begin());
    std::copy(data, data + bytes, last_.end() - static_cast<std::ptrdiff_t>(bytes));
}

bool TcpChannel::examine_end() {
    const std::lock_guard guard(receiving_);
    int waiting = 0;
    ioctl(connection_.get(), FIONREAD, &waiting);
    std::vector<std::byte> rest(static_cast<std::size_t>(std::max(waiting, 0)));
    const ssize_t got = rest.empty() ? 0 : recv(connection_.get(), rest.data(), rest.size(), MSG_PEEK | MSG_DONTWAIT);
    const auto kept = last_;
    if (got > 0)
        remember(rest.data(), static_cast<std::size_t>(got));
    const bool goodbye = std::memcmp(last_.data(), kGoodbye.data(), sizeof(Goodbye)) == 0;
    last_ = kept;
    broken_ = !goodbye;
    return broken_;
}

void TcpChannel::shut_down() {
    if (!connection_)
        return;
    // Unread bytes would turn the end into a reset, which may overtake the goodbye.
    shutdown(connection_.get(), SHUT_WR);
    char drop[4096];
    while (recv(connection_.get(), drop, sizeof drop, MSG_DONTWAIT) > 0) {
    }
    connection_.close();
}

Watcher::Watcher(std::vector<TcpChannel*> channels, Bell& bell, std::function<void(std::size_t)> lost)
    : channels_(std::move(channels)), bell_(bell), lost_(std::move(lost)) {}

ncclResult_t Watcher::start() {
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    stop_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    bool ready = epoll_ && stop_;
    for (std::size_t i = 0; i <= channels_.size() && ready; ++i) {
        epoll_event event{};
        event.data.u64 = i;  // one past the channels: the stop signal
        event.events = i == channels_.size() ? EPOLLIN : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        const int fd = i == channels_.size() ? stop_.get() : channels_[i]->fd();
        ready = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
    }
    if (!ready) {
        warn("Watching connections to other hosts failed: %s", std::strerror(errno));
        return ncclSystemError;
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return ncclSuccess;
}

void Watcher::run() {
    std::vector<bool> ended(channels_.size());
    while (true) {
        epoll_event events[32];
        const int count = epoll_wait(epoll_.get(), events, 32, -1);
        for (int i = 0; i < count; ++i) {
            const std::size_t channel = events[i].data.u64;
            if (channel == channels_.size())
                return;
            if ((events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0 || ended[channel])
                continue;
            ended[channel] = true;
            if (channels_[channel]->examine_end())
                lost_(channel);
        }
        bell_.ring();
    }
}

Watcher::~Watcher() {
    if (!thread_.joinable())
        return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
}

}  // namespace vgpu::nccl
