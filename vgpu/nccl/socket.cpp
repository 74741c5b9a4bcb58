#include "vgpu/nccl/socket.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgpu/nccl/debug.hpp"

namespace vgpu::nccl {
namespace {

constexpr int kPollMs = 20;  // how long an abort may go unnoticed
constexpr int kBacklog = 4096;

// NCCL_SOCKET_IFNAME taken apart.
struct Wanted {
    bool exclude = false;
    bool whole = false;
    std::vector<std::string> names;

    Wanted() {
        const char* text = std::getenv("NCCL_SOCKET_IFNAME");
        std::string_view rest = text == nullptr ? "" : text;
        if (!rest.empty() && rest.front() == '^')
            exclude = true, rest.remove_prefix(1);
        if (!rest.empty() && rest.front() == '=')
            whole = true, rest.remove_prefix(1);
        while (!rest.empty()) {
            const std::size_t comma = rest.find(',');
            names.emplace_back(rest.substr(0, comma));
            rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
        }
    }
    bool named(const char* interface) const {
        for (const std::string& name : names)
            if (whole ? name == interface : std::strncmp(interface, name.c_str(), name.size()) == 0)
                return true;
        return false;
    }
};

bool link_local(const sockaddr* address) {
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// Lower is better; negative: not to be used.
int rank_of(const ifaddrs& entry, const Wanted& wanted, int family) {
    if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0 || link_local(entry.ifa_addr))
        return -1;
    const int its = entry.ifa_addr->sa_family;
    if ((its != AF_INET && its != AF_INET6) || (family != 0 && its != family))
        return -1;
    const bool named = wanted.named(entry.ifa_name);
    if (!wanted.names.empty() && named == wanted.exclude)
        return -1;
    const int newer = its == AF_INET6 ? 1 : 0;
    if (!wanted.names.empty() && !wanted.exclude)
        return newer;
    if ((entry.ifa_flags & IFF_LOOPBACK) != 0)
        return 20 + newer;
    return (std::strncmp(entry.ifa_name, "docker", 6) == 0 || std::strncmp(entry.ifa_name, "virbr", 5) == 0 ? 10 : 0) +
           newer;
}

int family_wanted() {
    const char* text = std::getenv("NCCL_SOCKET_FAMILY");
    if (text == nullptr)
        return 0;
    return std::strcmp(text, "AF_INET6") == 0 ? AF_INET6 : std::strcmp(text, "AF_INET") == 0 ? AF_INET : 0;
}

// 1: ready, 0: stopped, -1: error.
int wait_for(int fd, short events, Stop stop) {
    while (true) {
        pollfd entry{fd, events, 0};
        const int ready = poll(&entry, 1, kPollMs);
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (stop != nullptr && stop->load(std::memory_order_relaxed))
            return 0;
    }
}

ncclResult_t refused(const char* what, const Address& address) {
    warn("%s %s failed: %s", what, address.text().c_str(), std::strerror(errno));
    return errno == ECONNREFUSED || errno == ECONNRESET || errno == EPIPE ? ncclRemoteError : ncclSystemError;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = other.release();
    }
    return *this;
}
Fd::~Fd() {
    close();
}
int Fd::release() {
    return std::exchange(fd_, -1);
}
void Fd::close() {
    if (fd_ >= 0)
        ::close(std::exchange(fd_, -1));
}

std::string Address::text() const {
    char host[INET6_ADDRSTRLEN] = "?";
    const bool four = any.sa_family == AF_INET;
    inet_ntop(any.sa_family, four ? static_cast<const void*>(&v4.sin_addr) : &v6.sin6_addr, host, sizeof host);
    return std::string(host) + "<" + std::to_string(ntohs(four ? v4.sin_port : v6.sin6_port)) + ">";
}

ncclResult_t local_address(Address& address) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        warn("getifaddrs failed: %s", std::strerror(errno));
        return ncclSystemError;
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    const Wanted wanted;
    const int family = family_wanted();
    int best = -1;
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        const int rank = rank_of(*entry, wanted, family);
        if (rank < 0 || (best >= 0 && rank >= best))
            continue;
        best = rank;
        const std::size_t size = entry->ifa_addr->sa_family == AF_INET ? sizeof address.v4 : sizeof address.v6;
        std::memcpy(static_cast<void*>(&address), entry->ifa_addr, size);
    }
    if (best >= 0)
        return ncclSuccess;
    const char* name = std::getenv("NCCL_SOCKET_IFNAME");
    warn("Bootstrap : no socket interface found%s%s",
         name == nullptr ? "" : ", NCCL_SOCKET_IFNAME=", name == nullptr ? "" : name);
    return ncclInvalidUsage;
}

ncclResult_t listen_on(Address& address, Fd& listener) {
    Fd fd(socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    socklen_t size = sizeof(Address);
    if (!fd || bind(fd.get(), &address.any, address.size()) != 0 || listen(fd.get(), kBacklog) != 0 ||
        getsockname(fd.get(), &address.any, &size) != 0)
        return refused("Listening on", address);
    listener = std::move(fd);
    return ncclSuccess;
}

ncclResult_t connect_to(const Address& address, Stop stop, Fd& connection) {
    Fd fd(socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd)
        return refused("Opening a socket to", address);
    if (connect(fd.get(), &address.any, address.size()) != 0 && errno != EINPROGRESS)
        return refused("Connecting to", address);
    const int ready = wait_for(fd.get(), POLLOUT, stop);
    if (ready == 0)
        return ncclInternalError;
    int error = 0;
    socklen_t size = sizeof error;
    if (ready < 0 || getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        errno = error != 0 ? error : errno;
        return refused("Connecting to", address);
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection = std::move(fd);
    return ncclSuccess;
}

ncclResult_t send_all(int fd, const void* data, std::size_t bytes, Stop stop) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            bytes -= static_cast<std::size_t>(sent);
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return ncclRemoteError;
        if (wait_for(fd, POLLOUT, stop) == 0)
            return ncclInternalError;
    }
    return ncclSuccess;
}

ncclResult_t receive_all(int fd, void* data, std::size_t bytes, Stop stop) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t got = recv(fd, at, bytes, 0);
        if (got > 0) {
            at += got;
            bytes -= static_cast<std::size_t>(got);
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return ncclRemoteError;
        if (wait_for(fd, POLLIN, stop) == 0)
            return ncclInternalError;
    }
    return ncclSuccess;
}

}  // namespace vgpu::nccl
