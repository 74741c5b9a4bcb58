// How a kernel packs a type: its layout in a canonical form of bodies that are repeated regularly, each a list of runs.
// Made with the layout and kept with it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "datatype/layout.hpp"
#include "datatype/pack_work.hpp"

namespace swy::datatype {

struct Plan {
    std::size_t body = 0;       // packed bytes of a body
    std::vector<PackRun> runs;  // of a body, in packed order
    std::vector<Dim> dims;      // repetitions of the body in one element, innermost first
    std::size_t alignment = 1;  // bytes of the longest word that no run, and no step between runs, cuts: at most 16
    std::size_t copies = 0;     // two-dimensional copies that it takes to pack one element without kernels
};

// Makes the plan. A vector or subarray of any depth, or an array of structures, is one body with dims; other types are
// the list of all their runs. Returns null where a kernel is of no use: nothing to pack, contiguous, or more than a
// million runs. Throws std::bad_alloc.
std::shared_ptr<const Plan> plan_of(const Layout& layout);

// Tells whether kernels are expected to be faster than the driver's copies for `count` elements. A copy moves long rows
// at the full speed of the link; short rows are expected to stay below that speed, and many copies to cost more than
// one launch. The limits are guesses: nobody has measured them on a GPU yet.
bool suits_kernel(const Layout& layout, std::size_t count);

// The part of for_each_work() that does not depend on `use`.
void begin_work(const Layout& layout, std::size_t count, PackWork& work);
std::size_t fill_runs(const Plan& plan, std::size_t first, PackWork& work);  // returns how many runs
std::size_t first_run(const Plan& plan, const PackWork& work);
bool past_end(const Plan& plan, std::size_t run, const PackWork& work);

// Makes the works that move bytes [from, to) of the packed form of `count` elements; `memory`, `low` and `high` as in
// PackWork. Calls `use` with each until it returns a value other than 0, which is returned.
template <typename Use>
int for_each_work(const Layout& layout, std::size_t count, PackWork& work, Use use) {
    begin_work(layout, count, work);
    const Plan& plan = *layout.plan;
    for (std::size_t run = first_run(plan, work); run < plan.runs.size() && !past_end(plan, run, work);) {
        run += fill_runs(plan, run, work);
        if (const int result = use(static_cast<const PackWork&>(work)); result != 0)
            return result;
    }
    return 0;
}

}  // namespace swy::datatype
