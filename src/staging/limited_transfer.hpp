// A transfer that has as long as SWITCHYARD_TIMEOUT says: of a message, or of the copy that precedes it. Under the
// engine's lock.
#pragma once

#include <memory>
#include <string>

#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "progress/wait.hpp"
#include "settings/settings.hpp"
#include "staging/transfer.hpp"

namespace swy::staging {

class LimitedTransfer {
  public:
    // `late` is the error of one that takes longer.
    explicit LimitedTransfer(const char* late = "both ranks were ready, the transfer did not finish") : late_(late) {}

    // Its time begins. Null for a transfer that could not begin.
    void begin(std::unique_ptr<Transfer> transfer) {
        transfer_ = std::move(transfer);
        limit();
    }

    bool begun() const { return transfer_ != nullptr || abandoned_; }
    bool under_way() const { return transfer_ != nullptr && !transfer_->done(); }
    const std::string& failure() const { return abandoned_ ? kHangs : transfer_->failure(); }  // once it has ended

    // Does what can be done now; never blocks. Returns true when something moved.
    bool step() {
        if (under_way() && deadline_.passed()) {
            if (given_up_)
                return abandon();
            give_up(deadline_.why() + ": " + late_);
        }
        return under_way() && transfer_->step();
    }

    // It ends when nothing uses the program's memory any more, for which it has as long again.
    void give_up(const std::string& why) {
        given_up_ = true;
        limit();
        transfer_->give_up(why);
    }

    // The device does not end a copy: it may use the program's and our memory at any time, so ours must stay.
    bool abandoned() const { return abandoned_; }

  private:
    inline static const std::string kHangs =
        "a copy of the data has not ended, twice as long as SWITCHYARD_TIMEOUT says: the program's own work on the "
        "device may hang";

    void limit() { deadline_ = progress::Deadline(settings::values().timeout); }

    bool abandon() {
        progress::keep_for_ever(std::move(transfer_));
        abandoned_ = true;
        return true;
    }

    const char* const late_;
    std::unique_ptr<Transfer> transfer_;
    progress::Deadline deadline_{0};
    bool given_up_ = false;
    bool abandoned_ = false;
};

// Steps a copy of a message to its end, with MPI's progress; not under the lock. `memory` is what of it is ours.
// Returns "" or the error.
inline std::string complete(std::unique_ptr<Transfer> transfer, std::shared_ptr<void> memory) {
    LimitedTransfer limited("the copy of the data has not ended");
    limited.begin(std::move(transfer));
    while (limited.under_way()) {
        {
            const progress::Hold hold;
            limited.step();
        }
        if (limited.under_way())
            progress::progress();
    }
    if (limited.abandoned())
        progress::keep_for_ever(std::move(memory));
    return limited.failure();
}

}  // namespace swy::staging
