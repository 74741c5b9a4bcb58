#include "ext/message/sink.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace swy::message {
namespace {

// The bytes that are mapped again and again. Linux lets a process have 65530 mappings (vm.max_map_count): enough for a
// payload of a terabyte.
constexpr std::size_t kBehind = std::size_t{16} << 20;

bool lay(std::byte* address, std::size_t bytes, int file) {
    for (std::size_t at = 0; at < bytes; at += kBehind)
        if (mmap(address + at, std::min(kBehind, bytes - at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                 0) == MAP_FAILED)
            return false;
    return true;
}

}  // namespace

Sink::Sink(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t wanted = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
    const int file = memfd_create("switchyard", MFD_CLOEXEC);
    if (file < 0)
        return;
    if (ftruncate(file, static_cast<off_t>(std::min(wanted, kBehind))) == 0) {
        void* reserved = mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved != MAP_FAILED && lay(static_cast<std::byte*>(reserved), wanted, file)) {
            data_ = reserved;
            mapped_ = wanted;
        } else if (reserved != MAP_FAILED) {
            munmap(reserved, wanted);
        }
    }
    close(file);
}

Sink::~Sink() {
    if (data_ != nullptr)
        munmap(data_, mapped_);
}

}  // namespace swy::message
