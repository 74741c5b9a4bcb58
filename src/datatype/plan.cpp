#include "datatype/plan.hpp"

#include <algorithm>
#include <bit>

namespace swy::datatype {
namespace {

constexpr std::size_t kMostRuns = std::size_t{1} << 20;
constexpr std::size_t kLongestWord = 16;

// Guesses, see suits_kernel().
constexpr std::size_t kLongRow = 512;  // bytes
constexpr std::size_t kFewCopies = 4;

// Tells whether all blocks are repeated together, and each repetition packs behind the one within it.
bool regular(const Layout& layout) {
    const Block& first = layout.blocks.front();
    std::size_t packed = 0;
    for (const Block& block : layout.blocks) {
        if (block.packed != packed || block.dims != first.dims ||
            (block.dims != 0 && block.first_dim != first.first_dim))
            return false;
        packed += block.length;
    }
    for (const Dim& dim : layout.dims_of(first)) {
        if (dim.packed_stride != packed)
            return false;
        packed *= dim.count;
    }
    return packed == layout.size && first.dims < kPackDims;
}

std::size_t runs_in(const Layout& layout) {
    std::size_t runs = 0;
    for (const Block& block : layout.blocks) {
        std::size_t here = 1;
        for (const Dim& dim : layout.dims_of(block))
            here = std::min(here * std::min(dim.count, kMostRuns + 1), kMostRuns + 1);
        runs += here;
        if (runs > kMostRuns)
            break;
    }
    return runs;
}

void expand(const Block& block, std::span<const Dim> dims, PackRun at, std::vector<PackRun>& runs) {
    if (dims.empty()) {
        runs.push_back(at);
        return;
    }
    const Dim& outer = dims.back();
    for (std::size_t i = 0; i < outer.count; ++i)
        expand(block, dims.first(dims.size() - 1),
               {at.offset + static_cast<MPI_Aint>(i) * outer.stride, at.start + i * outer.packed_stride}, runs);
}

std::size_t word_that_divides(std::uint64_t distance, std::size_t word) {
    return distance == 0 ? word : std::min(word, std::size_t{1} << std::min(std::countr_zero(distance), 4));
}

// The longest word that the plan allows. When something is packed, the address of the data limits it further.
std::size_t alignment_of(const Plan& plan) {
    std::size_t word = word_that_divides(plan.body, kLongestWord);
    for (const PackRun& run : plan.runs)
        word = word_that_divides(static_cast<std::uint64_t>(run.offset),
                                 word_that_divides(run.start, word));  // two's complement: signs do not matter
    for (const Dim& dim : plan.dims)
        word = word_that_divides(static_cast<std::uint64_t>(dim.stride), word);
    return word;
}

// The number of copies without kernels: each block's longest repetition makes the rows of one copy.
std::size_t copies_of(const Layout& layout) {
    std::size_t copies = 0;
    for (const Block& block : layout.blocks) {
        std::size_t here = 1, longest = 1;
        for (const Dim& dim : layout.dims_of(block)) {
            here *= dim.count;
            longest = std::max(longest, dim.count);
        }
        copies += here / longest;
    }
    return copies;
}

}  // namespace

std::shared_ptr<const Plan> plan_of(const Layout& layout) {
    if (layout.contiguous || layout.blocks.empty())
        return nullptr;
    auto plan = std::make_shared<Plan>();
    if (regular(layout)) {
        for (const Block& block : layout.blocks)
            plan->runs.push_back({block.offset, block.packed});
        const auto dims = layout.dims_of(layout.blocks.front());
        plan->dims.assign(dims.begin(), dims.end());
        plan->body = plan->dims.empty() ? layout.size : plan->dims.front().packed_stride;
    } else {
        if (runs_in(layout) > kMostRuns)
            return nullptr;
        for (const Block& block : layout.blocks)
            expand(block, layout.dims_of(block), {block.offset, block.packed}, plan->runs);
        std::sort(plan->runs.begin(), plan->runs.end(),
                  [](const PackRun& a, const PackRun& b) { return a.start < b.start; });
        plan->body = layout.size;
    }
    plan->runs.shrink_to_fit();
    plan->alignment = alignment_of(*plan);
    plan->copies = copies_of(layout);
    return plan;
}

bool suits_kernel(const Layout& layout, std::size_t count) {
    if (layout.plan == nullptr || count == 0)
        return false;
    const Plan& plan = *layout.plan;
    const bool short_rows = plan.body / plan.runs.size() < kLongRow;
    const bool rows_of_elements = count > 1 && plan.dims.empty();  // one copy may take a row of every element
    return short_rows || plan.copies * (rows_of_elements ? 1 : count) > kFewCopies;
}

void begin_work(const Layout& layout, std::size_t count, PackWork& work) {
    const Plan& plan = *layout.plan;
    work.body = plan.body;
    work.first_body = work.from / plan.body;
    work.bodies = (work.to - 1) / plan.body + 1 - work.first_body;
    work.dims = 0;
    for (const Dim& dim : plan.dims) {
        work.counts[work.dims] = dim.count;
        work.strides[work.dims++] = dim.stride;
    }
    std::size_t word = word_that_divides(work.memory, plan.alignment);
    if (count > 1) {
        work.counts[work.dims] = count;
        work.strides[work.dims++] = layout.extent;
        word = word_that_divides(static_cast<std::uint64_t>(layout.extent), word);
    }
    for (const std::uint64_t place : {work.packed, work.from, work.to})
        word = word_that_divides(place, word);
    work.word = static_cast<std::uint32_t>(word);
}

// The first run that matters: where a part lies within one body, only the runs that it cuts do.
std::size_t first_run(const Plan& plan, const PackWork& work) {
    if (work.bodies > 1)
        return 0;
    const std::uint64_t from = work.from - work.first_body * work.body;
    const auto after = std::upper_bound(plan.runs.begin(), plan.runs.end(), from,
                                        [](std::uint64_t place, const PackRun& run) { return place < run.start; });
    return static_cast<std::size_t>(after - plan.runs.begin()) - 1;
}

bool past_end(const Plan& plan, std::size_t run, const PackWork& work) {
    return work.bodies == 1 && plan.runs[run].start >= work.to - work.first_body * work.body;
}

std::size_t fill_runs(const Plan& plan, std::size_t first, PackWork& work) {
    const std::size_t count = std::min<std::size_t>(plan.runs.size() - first, kPackRuns);
    work.runs = static_cast<std::uint32_t>(count);
    work.list_start = plan.runs[first].start;
    work.list_end = first + count < plan.runs.size() ? plan.runs[first + count].start : plan.body;
    for (std::size_t i = 0; i < count; ++i)
        work.run[i] = {plan.runs[first + i].offset, plan.runs[first + i].start - work.list_start};
    return count;
}

}  // namespace swy::datatype
