// TCP sockets as the rendezvous and the transport between hosts use them: owned descriptors, addresses, and calls that
// end when the communicator that waits is aborted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <netinet/in.h>

#include <nccl.h>

namespace vgpu::nccl {

class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(other.release()) {}
    Fd& operator=(Fd&& other) noexcept;
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd();

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release();
    void close();

  private:
    int fd_ = -1;
};

// Sent between ranks as raw bytes.
struct Address {
    union {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
    };
    Address() : v6{} {}
    socklen_t size() const { return any.sa_family == AF_INET ? sizeof v4 : sizeof v6; }
    std::string text() const;
};

// The address of the interface that NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY select, as NCCL reads them: a list of
// name prefixes, "^" before it excludes, "=" asks for whole names. Without it: the first interface that is up and
// neither loopback nor a container bridge, then a bridge, then loopback. Port 0.
ncclResult_t local_address(Address& address);

// A listening socket on `address`, whose port is filled in.
ncclResult_t listen_on(Address& address, Fd& listener);

// A function that waits call from time to time; they give up when it returns true. Null: never.
using Stop = const std::atomic<bool>*;

// These give ncclRemoteError when the other side has gone, ncclSystemError with a warning for what the system refuses,
// and ncclInternalError when stopped.
ncclResult_t connect_to(const Address& address, Stop stop, Fd& connection);
ncclResult_t send_all(int fd, const void* data, std::size_t bytes, Stop stop);
ncclResult_t receive_all(int fd, void* data, std::size_t bytes, Stop stop);

}  // namespace vgpu::nccl
