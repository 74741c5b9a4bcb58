#include "comm/unique_ids.hpp"

#include <algorithm>
#include <string>

#include "real.hpp"

namespace swy::comm {
namespace {

using nccl::Communicator;
using nccl::kUniqueIdBytes;
using nccl::UniqueId;

constexpr int kRanksAnId = 16;

}  // namespace

int ids_for(int ranks) {
    return (ranks + kRanksAnId - 1) / kRanksAnId;
}

int drawn_by(int number, int ids, int ranks) {
    return number * (ranks / ids) + std::min(number, ranks % ids);
}

int draw_others(const State& state, const UniqueId& first, int ids, std::vector<UniqueId>& all, std::string& problem) {
    UniqueId mine{};  // stays zero where it cannot be drawn: NCCL draws no such id
    std::vector<int> bytes(static_cast<std::size_t>(state.size)), slots(bytes.size());
    for (int number = 0; number < ids; ++number) {
        const int rank = drawn_by(number, ids, state.size);
        bytes[static_cast<std::size_t>(rank)] = kUniqueIdBytes;
        slots[static_cast<std::size_t>(rank)] = number * static_cast<int>(kUniqueIdBytes);
        if (rank == state.rank)
            problem = number == 0 ? std::string() : Communicator::draw(mine);
    }
    if (state.rank == 0)
        mine = first;
    all.resize(static_cast<std::size_t>(ids));
    const int rc = real::Allgatherv(mine.data(), bytes[static_cast<std::size_t>(state.rank)], MPI_BYTE, all.data(),
                                    bytes.data(), slots.data(), MPI_BYTE, state.handle);
    if (std::find(all.begin(), all.end(), UniqueId{}) != all.end())
        all.clear();
    return rc;
}

}  // namespace swy::comm
