// A part of the packed form of some elements: the runs of bytes of which it consists. Only src/pack and src/staging use
// this. It knows nothing of devices.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "datatype/layout.hpp"

namespace swy::pack {

// Cuts parts out of `count` elements of a layout, by arithmetic on the repetitions: neither what precedes a part nor
// how often its runs repeat costs anything, so a message may be cut into any number of parts, in any order. (A walk
// from the start for each part would be quadratic; packing the whole message first would need memory for all of it and
// delay the first send.)
class Parts {
  public:
    Parts(std::shared_ptr<const datatype::Layout> layout, std::size_t count);

    // Returns bytes [from, from + n) of the packed form as the layout of one element, whose `packed` counts from
    // `from`. It is valid until the next cut. Throws std::bad_alloc.
    const datatype::Layout& cut(std::size_t from, std::size_t n);

  private:
    using Block = datatype::Block;
    using Dim = datatype::Dim;

    void add_elements(std::size_t first, std::size_t count);
    void cut_element(std::size_t element);
    void cut_block(const Block& block, std::span<const Dim> dims);
    void add(const Block& block, std::span<const Dim> dims, std::size_t copies, const Dim& outer);

    std::shared_ptr<const datatype::Layout> layout_;
    std::size_t count_;
    // How far the blocks up to and including each one reach in the packed form of an element: tells with which block a
    // part begins.
    std::vector<std::size_t> reach_;
    datatype::Layout part_;
    std::size_t from_ = 0, to_ = 0;
};

}  // namespace swy::pack
