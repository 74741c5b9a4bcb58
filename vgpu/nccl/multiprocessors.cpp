#include "vgpu/nccl/multiprocessors.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>

#include <cuda.h>

#include "vgpu/nccl/settings.hpp"

namespace vgpu::nccl {
namespace {

// NCCL's channels, at most (NCCL 2.18 to 2.28, paths.cc): over NVLink as many as its links want, over PCI two for a
// peer and two rings of two.
constexpr int kLinked = 32, kCollectiveOverPci = 4, kPeerOverPci = 2;

struct Room {
    std::mutex lock;
    std::condition_variable changed;
    int count = 0, taken = 0;
    std::list<int> waiting;  // what each kernel wants, in their order
};

Room& room_of(int ordinal) {
    static std::mutex guard;
    static auto* devices = new std::map<int, Room>;  // used while the process ends
    const std::lock_guard lock(guard);
    Room& device = (*devices)[ordinal];
    if (device.count == 0)
        cuDeviceGetAttribute(&device.count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
    return device;
}

// Has the device NVLink? Only that makes another device's memory atomic.
bool linked(int ordinal) {
    int count = 0;
    cuDeviceGetCount(&count);
    for (int other = 0; other < count; ++other)
        if (int atomic = 0; other != ordinal &&
                            cuDeviceGetP2PAttribute(&atomic, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, ordinal,
                                                    other) == CUDA_SUCCESS &&
                            atomic != 0)
            return true;
    return false;
}

}  // namespace

int channels_of(const Communicator& communicator) {
    return std::min(linked(communicator.device.ordinal) ? kLinked : kCollectiveOverPci, communicator.config.max_ctas);
}

int ctas_of(const Communicator& communicator, bool collective) {
    const int count = room_of(communicator.device.ordinal).count;
    if (settings().alone)
        return count;
    const bool few = !collective && !linked(communicator.device.ordinal);
    return std::min({channels_of(communicator), few ? kPeerOverPci : kLinked, count});
}

Multiprocessors::Multiprocessors(const Communicator& communicator, int ctas) : ordinal_(communicator.device.ordinal) {
    Room& device = room_of(ordinal_);
    std::unique_lock lock(device.lock);
    const auto place = device.waiting.insert(device.waiting.end(), ctas);
    const Family& family = *communicator.family;
    const auto mine = [&] { return place == device.waiting.begin() && device.taken + ctas <= device.count; };
    while (!mine() && !family.halted() && !family.ended())
        device.changed.wait_for(lock, std::chrono::milliseconds(10));
    if (mine())
        device.taken += taken_ = ctas;
    device.waiting.erase(place);
    device.changed.notify_all();
}

Multiprocessors::~Multiprocessors() {
    Room& device = room_of(ordinal_);
    const std::lock_guard lock(device.lock);
    device.taken -= taken_;
    device.changed.notify_all();
}

}  // namespace vgpu::nccl
