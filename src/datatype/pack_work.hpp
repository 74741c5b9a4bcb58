// Packing, one word at a time: what each thread of a kernel, or of its counterpart on virtual GPUs, does. There is no
// MPI and no CUDA here, only trivially copyable data that a kernel takes by value.
#pragma once

#include <cstdint>

#include "datatype/narrow_float.hpp"

namespace swy::datatype {

// A run of adjacent bytes. In the packed form it ends where the next one starts.
struct PackRun {
    std::int64_t offset;  // in memory, from the element's address
    std::uint64_t start;  // packed, from the first run of the list
};

// Kernel parameters are limited to 4 KiB on every GPU: the list of runs is passed in them, in as many launches as it
// takes, so that no list has to be kept on a device and nothing is allocated.
constexpr int kPackRuns = 192, kPackDims = 8;

// Bytes [from, to) of the packed form. The packed form consists of bodies of equal size, repeated in memory along the
// dims, innermost first; a body consists of runs, of which this work covers some consecutive ones.
struct PackWork {
    std::uint64_t memory;     // address of the first element
    std::uint64_t low, high;  // all data lies within
    std::uint64_t packed;     // address of byte `from` of the packed form
    std::uint64_t from, to;
    std::uint64_t body;                  // bytes
    std::uint64_t first_body, bodies;    // that this work covers
    std::uint64_t list_start, list_end;  // position of the runs within a body
    std::uint32_t word;  // bytes of a word, a power of two that divides every length, offset and address
    std::uint32_t runs, dims;
    std::uint64_t counts[kPackDims];
    std::int64_t strides[kPackDims];
    PackRun run[kPackRuns];
};
static_assert(sizeof(PackWork) < 4096);

SWY_BOTH_SIDES inline std::uint64_t words_of(const PackWork& work) {
    return work.bodies * ((work.list_end - work.list_start) / work.word);
}

// Divides. 64-bit division is slow on a GPU, and rarely needed.
SWY_BOTH_SIDES inline std::uint64_t quotient(std::uint64_t a, std::uint64_t b) {
    if ((a | b) >> 32 == 0)
        return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
    return a / b;
}

// The last run that starts at or before `at`.
SWY_BOTH_SIDES inline std::uint32_t run_at(const PackWork& work, std::uint64_t at) {
    std::uint32_t first = 0, end = work.runs;
    while (end - first > 1) {
        const std::uint32_t middle = (first + end) / 2;
        if (work.run[middle].start <= at)
            first = middle;
        else
            end = middle;
    }
    return first;
}

// Finds word `index`, in bytes from work.memory and from work.packed. Returns false for a word outside [from, to).
SWY_BOTH_SIDES inline bool find_word(const PackWork& work, std::uint64_t index, std::int64_t& in_memory,
                                     std::uint64_t& in_packed) {
    const std::uint64_t words = (work.list_end - work.list_start) / work.word;
    std::uint64_t body = quotient(index, words);
    const std::uint64_t at = (index - body * words) * work.word;
    body += work.first_body;
    const std::uint64_t packed = body * work.body + work.list_start + at;
    if (packed < work.from || packed >= work.to)
        return false;
    const PackRun& run = work.run[run_at(work, at)];
    in_memory = run.offset + static_cast<std::int64_t>(at - run.start);
    for (std::uint32_t d = 0; d < work.dims; ++d) {
        const std::uint64_t outer = quotient(body, work.counts[d]);
        in_memory += static_cast<std::int64_t>(body - outer * work.counts[d]) * work.strides[d];
        body = outer;
    }
    in_packed = packed - work.from;
    return true;
}

}  // namespace swy::datatype
