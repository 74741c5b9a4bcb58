// Ranks of different hosts: a TCP connection for each pair, and one thread that watches all of a rank's connections and
// rings its bell, so that a rank sleeps in one way whatever its peers are.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <nccl.h>

#include "vgpu/nccl/bell.hpp"
#include "vgpu/nccl/channel.hpp"
#include "vgpu/nccl/socket.hpp"

namespace vgpu::nccl {

// The last bytes that a rank writes before it closes a connection on purpose. A connection that ends without them has
// lost its peer. A link writes them as a frame of their own, so they count as ordinary bytes here.
using Goodbye = std::array<std::uint64_t, 3>;
inline constexpr std::uint32_t kGoodbyeFrame = 5;  // the frame type, see link.hpp
inline constexpr Goodbye kGoodbye{kGoodbyeFrame | (16ull << 32), 0x6f6f6462796521ull, 0x7667707567ull};

class TcpChannel final : public Channel {
  public:
    explicit TcpChannel(Fd connection);
    ~TcpChannel() override;

    std::size_t write(const void* data, std::size_t bytes) override;
    std::span<const std::byte> peek() override;
    void consume(std::size_t bytes) override;
    void notify() override {}
    bool broken() const override { return broken_; }

    int fd() const { return connection_.get(); }
    // The connection has ended or failed: decides whether that was a goodbye. True when the peer is lost.
    bool examine_end();
    // After this, the connection closes without a goodbye being looked for.
    void shut_down();

  private:
    void remember(const std::byte* data, std::size_t bytes);

    Fd connection_;
    std::atomic<bool> broken_{false};
    std::mutex receiving_;  // the watcher examines the end while an operation may be receiving
    std::vector<std::byte> buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::array<std::byte, sizeof(Goodbye)> last_{};  // the last bytes received
};

class Watcher {
  public:
    // `lost` is called on the watcher's thread, once per channel whose peer is lost.
    Watcher(std::vector<TcpChannel*> channels, Bell& bell, std::function<void(std::size_t channel)> lost);
    ~Watcher();
    ncclResult_t start();

  private:
    void run();

    std::vector<TcpChannel*> channels_;
    Bell& bell_;
    std::function<void(std::size_t)> lost_;
    Fd epoll_;
    Fd stop_;
    std::thread thread_;
};

}  // namespace vgpu::nccl
