// A part of the packed form of some elements: which of their runs of bytes it consists of. Used by carrier/staged/
// alone; knows nothing of devices.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "datatype/layout.hpp"

namespace swy::carrier::staged {

// Cuts parts out of `count` elements of a layout, by arithmetic on the repetitions: neither what comes before a part
// nor how often its runs repeat costs anything, so a message may be taken in any number of parts, in any order. (A walk
// from the start for each part would be quadratic; packing the whole once would need memory for the whole, and nothing
// could be sent before its end.)
class Parts {
  public:
    Parts(std::shared_ptr<const datatype::Layout> layout, std::size_t count);

    // Bytes [from, from + n) of the packed form, as the layout of one element, whose `packed` counts from `from`.
    // Valid until the next cut. Throws std::bad_alloc.
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
    // How far the blocks up to each one reach in the packed form of an element: which block a part begins with.
    std::vector<std::size_t> reach_;
    datatype::Layout part_;
    std::size_t from_ = 0, to_ = 0;
};

}  // namespace swy::carrier::staged
