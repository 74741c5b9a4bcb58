// The agreement: the small exchange by which the ranks of one collective decide on its route before any of them moves
// data (docs/decisions/002-both-ends-agree.md), as a state machine. It waits until all ranks have answered, or gives up
// when its deadline has passed, so that no rank goes on alone. How the answers travel is the transport's matter; what
// they say is the caller's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "progress/wait.hpp"

namespace swy::coll {

// How the ranks' answers come together.
class AgreementTransport {
  public:
    enum class State : std::uint8_t {
        kPending,
        kComplete,  // all ranks' answers are here
        kFailed,    // MPI reports an error
        kClosed,    // another rank has found that the ranks' calls do not match
    };
    virtual ~AgreementTransport() = default;
    // Never blocks. Once it has returned another state than kPending, it returns that one again.
    virtual State step() = 0;
    // Called where nobody will call step() again: what MPI still works on stays.
    virtual void give_up() {}

    // Which ranks have arrived, as far as the transport shows that. `shows_ranks`: it shows all that have.
    virtual bool shows_ranks() const { return false; }
    virtual bool has_arrived(int) const { return false; }
    virtual bool waits(int) const { return false; }  // has arrived, and waits for the others
};

// What the ranks tell each other beside their answers.
class AgreementMessages {
  public:
    virtual ~AgreementMessages() = default;
    virtual bool possible() const = 0;  // false: no rank sends any
    virtual void receive() = 0;         // those that have arrived. Does not block
    // Tells the others that this rank has given the agreement up.
    virtual void tell_failure(const std::string& why) = 0;
    // Receives, and returns why another rank has given it up; "" where none has told so.
    virtual std::string failure_elsewhere() = 0;
    // Tells the others that this rank has waited long; which ranks have told that.
    virtual void tell_waiting() = 0;
    virtual std::vector<int> waiting() const = 0;
};

class Agreement {
  public:
    struct Place {
        int rank = 0, size = 0;
    };
    // A rank that has waited for half of `patience`, in seconds, tells the others so that an error can say which ranks
    // have not come, and those that wait too answer; 0: no rank does. `did` says what every rank was to do. All that
    // is passed by reference outlives this.
    Agreement(Place place, AgreementTransport& transport, AgreementMessages& messages,
              const progress::Deadline& deadline, double patience, const char* did);

    struct End {
        enum class How : std::uint8_t { kComplete, kFailed, kClosed, kGivenUp } how = How::kComplete;
        std::string why;  // with kGivenUp, here or elsewhere
    };
    // Never blocks. Returns nothing until the agreement has ended; it is not called again then. A rank that gives up
    // takes no further part in the call, and tells the others, so that one that comes later does not go on alone: each
    // of them has an error, and they are in step again.
    std::optional<End> step();

    // For SWITCHYARD_STALL: what it waits for, as a clause; of waits_here() "" where a rank before this one waits too,
    // and says it for all.
    std::string waits_for() const;
    std::string waits_here() const;

  private:
    End give_up();
    void look();
    std::vector<bool> arrived() const;  // by rank; empty where that cannot be known

    const Place place_;
    AgreementTransport& transport_;
    AgreementMessages& messages_;
    const progress::Deadline& deadline_;
    const double patience_;
    const char* const did_;
    const progress::Deadline half_;
    progress::Deadline next_;
    bool told_ = false;
};

// What every rank was to do, as a rule.
inline constexpr const char* kEntered = "entered the call";

}  // namespace swy::coll
