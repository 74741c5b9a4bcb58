// The first bytes of a host buffer in packed order: what a short message has left in it.
#pragma once

#include <cstddef>
#include <span>

#include "datatype/layout.hpp"

namespace swy::datatype {

// Gathers as many of the first packed bytes of `count` elements at `address` as `to` holds and the elements have;
// returns how many.
std::size_t first_bytes(const Layout& layout, const void* address, std::size_t count, std::span<std::byte> to);

// The reverse: `from` becomes the first packed bytes of the elements.
void set_first_bytes(const Layout& layout, void* address, std::size_t count, std::span<const std::byte> from);

// Sets the first `bytes` packed bytes to zero, or as many as the elements have.
void clear_first_bytes(const Layout& layout, void* address, std::size_t count, std::size_t bytes);

}  // namespace swy::datatype
