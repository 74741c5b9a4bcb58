// Every order in which three ranks can take so many turns each.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

namespace interleavings {

inline constexpr int kRanks = 3;
using Schedule = std::vector<int>;  // whose turn it is

inline void for_each(int turns_each, const std::function<void(const Schedule&)>& run) {
    Schedule schedule;
    for (int rank = 0; rank < kRanks; ++rank)
        schedule.insert(schedule.end(), static_cast<std::size_t>(turns_each), rank);
    do
        run(schedule);
    while (std::next_permutation(schedule.begin(), schedule.end()));
}

// Calls `run` with every choice of one of `kinds` for each rank.
inline void for_each_choice(int kinds, const std::function<void(const std::vector<int>&)>& run) {
    for (int number = 0; number < kinds * kinds * kinds; ++number)
        run({number % kinds, number / kinds % kinds, number / kinds / kinds});
}

}  // namespace interleavings
