// How often the ranks of a communicator agree on one kind of collective in which no rank knows how much the others pass
// (coll::size_is_unknown). A program that makes such calls on host memory alone would pay for an agreement each time,
// which costs more than such a call of a few bytes. So after a while the ranks agree on one call in 2, 4 and so on to
// 64, and in the calls between every rank has MPI move its data. All ranks count the same calls and learn the same from
// each agreement, so they always know alike whether a call is agreed on.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "call/call.hpp"

namespace swy::comm {

class AgreementInterval {
  public:
    // Tells whether the ranks leave out this call, without counting it.
    bool leaves_out() const { return left_out_ != 0; }

    // Tells whether the ranks agree on this call. To be asked once for each call.
    bool due() {
        if (left_out_ == 0)
            return true;
        --left_out_;
        return false;
    }

    // Takes note of what an agreement has found. A program that comes back to device memory may do so again, and each
    // time twice as many calls are agreed on before any is left out.
    void agreed(bool any_device) {
        if (any_device) {
            if (on_host_ > needed_)
                needed_ = std::min(2 * needed_, kMostNeeded);
            on_host_ = 0;
        } else if (++on_host_ > needed_) {
            left_out_ = (1u << std::min(on_host_ - needed_, kLongest)) - 1;
        }
    }

  private:
    static constexpr unsigned kMostNeeded = 4096;
    static constexpr unsigned kLongest = 6;  // one call in 2^6

    unsigned on_host_ = 0;  // agreements in a row that found host memory alone
    unsigned needed_ = 16;  // such agreements before a call is left out
    unsigned left_out_ = 0;
};

// Those of a communicator, which makes few kinds of such calls.
class AgreementIntervals {
  public:
    // Large-count forms meet the others. Returns nullptr where there is none yet.
    AgreementInterval* find(CallId call) {
        const CallId kind = plain(call);
        for (auto& [id, interval] : intervals_) {
            if (id == kind)
                return &interval;
        }
        return nullptr;
    }
    AgreementInterval& of(CallId call) {
        AgreementInterval* const found = find(call);
        return found != nullptr ? *found : intervals_.emplace_back(plain(call), AgreementInterval()).second;
    }

  private:
    std::vector<std::pair<CallId, AgreementInterval>> intervals_;
};

}  // namespace swy::comm
