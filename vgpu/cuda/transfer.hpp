// Copies of bytes: their two sides, and when a copy returns, by CUDA's documentation.
// Used by the copy and memset entry points.
#pragma once

#include <atomic>
#include <memory>

#include "vgpu/cuda/api.hpp"

namespace vgpu::cuda {

enum class Where : std::uint8_t { Device, Managed, Pinned, Pageable };

struct Side {
    char* at = nullptr;  // as the simulator sees it
    Where where = Where::Pageable;
    int device = -1;
    bool sync_memops = false;
    std::shared_ptr<std::atomic<int>> memops_under_way{};  // none for pageable memory

    bool host() const { return where == Where::Pinned || where == Where::Pageable; }
};

// Counts a synchronous operation that returns before it is over, at the memory of each side, until the last copy of
// what this returns is gone. The work that is queued holds one.
std::shared_ptr<void> count_memop(const Side& one, const Side& other = {});

enum class Expect { Device, Host, Any };

// Finds the memory of [address, address + bytes). False: not wholly inside one live allocation, or not what the call's
// name promises (managed and page-locked memory are both host and device).
bool resolve(std::uintptr_t address, std::size_t bytes, Expect expect, Side& side);

// A box of bytes: `height` rows of `width` bytes in `depth` slices.
struct Box {
    std::size_t width = 0;
    std::size_t height = 1;
    std::size_t depth = 1;
    std::size_t target_pitch = 0;
    std::size_t target_slice = 0;
    std::size_t source_pitch = 0;
    std::size_t source_slice = 0;

    std::size_t bytes() const { return width * height * depth; }
    // From the first byte to one past the last.
    std::size_t target_span() const { return span(target_pitch, target_slice); }
    std::size_t source_span() const { return span(source_pitch, source_slice); }

  private:
    std::size_t span(std::size_t pitch, std::size_t slice) const;
};

// Copies a box in `stream`'s order. `synchronous` is the kind of the call; whether it returns before the copy is
// complete follows from that and from the sides, by "API synchronization behavior" in NVIDIA's manuals, and it never
// returns later than stated there.
CUresult transfer(const Entry& entry, const std::shared_ptr<Stream>& stream, const Side& target, const Side& source,
                  const Box& box, bool synchronous);

// A contiguous copy between program addresses.
CUresult copy(const Entry& entry, CUstream stream, std::uintptr_t target, Expect expect_target, std::uintptr_t source,
              Expect expect_source, std::size_t bytes, bool synchronous);

}  // namespace vgpu::cuda
