// Which ranks have arrived where some wait for all: for the error of who has waited as long as SWITCHYARD_TIMEOUT says.
// Where the ranks find each other they exchange no word of it. Who has waited for half of that time tells the others,
// and who waits too answers. A rank that computes with its call under way says nothing: MPI does for it what it has to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/control.hpp"
#include "comm/order.hpp"
#include "comm/state.hpp"
#include "request/wait.hpp"

namespace swy::route {

// A name for the agreement on an operation, the same on all ranks and no other one's. Never 0.
comm::Undertaking name_of(const comm::Order& order, const comm::Order::Launch& launch);

class Arrivals {
  public:
    // `what` the ranks wait for; 0: it has no name, and nobody tells. 0 seconds: nobody gives up, nor tells. `begun` is
    // one more than the number of a call that does not block, among the communicator's: 0: it is no such call.
    Arrivals(const comm::State& comm, comm::Undertaking what, double seconds, std::uint64_t begun = 0);

    // While it waits, as often as it likes. Does not block, but asks MPI now and then.
    void look();

    // By rank; empty where it cannot be known. Where the ranks share a board, that says it of who computes, too.
    std::vector<bool> known() const;

  private:
    const comm::State& comm_;
    const comm::Undertaking what_;
    const double seconds_;
    const std::uint64_t begun_;
    const request::Deadline half_;
    request::Deadline next_;
    bool told_ = false;
};

// What a rank says that has waited as long as it may: not all ranks "entered the call", or whatever they did not do.
inline constexpr const char* kEntered = "entered the call";
std::string not_all(const char* did, const std::vector<bool>& arrived);

// The same of one that they all had entered; `missing` has not said that it launched it, MPI_PROC_NULL: all before
// have.
std::string not_launched(int missing);

std::string ranks_in_words(const std::vector<int>& ranks);

}  // namespace swy::route
