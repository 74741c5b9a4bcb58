// The ways in which the ranks' answers travel: a page that they share, a collective of MPI's, and messages of the job,
// by which they tell each other too when they give up.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coll/agreement.hpp"
#include "coll/vote_record.hpp"
#include "comm/job_messages.hpp"
#include "comm/shared_page.hpp"
#include "comm/state.hpp"

namespace swy::coll {

// One exchange of records on a shared page, by a blocking call.
class PageTransport final : public AgreementTransport {
  public:
    // A rank that has host memory alone makes the real call, whatever the others have: it publishes its record and does
    // not wait (kNobody). It looks at the records of ranks that came before it all the same.
    enum class WaitsFor : std::uint8_t { kNobody, kAll };
    PageTransport(comm::SharedPage& page, Agreement::Place place, const comm::SharedPage::Record& mine,
                  WaitsFor waits_for, const VoteRecord& vote = {})
        : page_(page), place_(place), waits_for_(waits_for), mine_(mine), all_(vote) {}

    State step() override;
    bool shows_ranks() const override { return true; }
    bool has_arrived(int rank) const override;
    bool waits(int rank) const override;

    // Once it is complete: the maximum of all votes; whether the ranks that have come make the same call; whether some
    // rank's call is a non-blocking one, which takes no part in exchanges; and which rank made what call.
    const VoteRecord& all() const { return all_; }
    bool all_match() const { return !differ_ && !some_nonblocking_; }
    bool some_nonblocking() const { return some_nonblocking_; }
    std::vector<std::pair<int, Fingerprint>> prints() const;

  private:
    bool has_started_later(int rank) const;

    comm::SharedPage& page_;
    const Agreement::Place place_;
    const WaitsFor waits_for_;
    const comm::SharedPage::Record mine_;
    VoteRecord all_;
    int next_ = 0;  // ranks looked at, from this one on
    bool published_ = false, differ_ = false, some_nonblocking_ = false;
};

// What a collective of MPI's reads and writes in an agreement: derived types add the memory.
struct MpiExchange {
    virtual ~MpiExchange() = default;
    // Once it is complete: milliseconds between the first rank's part in it and the last one's.
    virtual std::int64_t spread() const = 0;
    MPI_Request request = MPI_REQUEST_NULL;
};
struct VoteExchange final : MpiExchange {
    std::int64_t spread() const override { return read(all).spread; }
    VoteRecord mine{}, all{};
};

// Starts the reduction of the votes on the program's communicator. Returns MPI's code.
int start(VoteExchange& exchange, const comm::State& comm);

// A collective of MPI's on the program's communicator, which has been started and is not complete.
class MpiTransport final : public AgreementTransport {
  public:
    // kRaised: MPI calls the program's error handler, as for a blocking call. kReturned: it does not.
    enum class Errors : std::uint8_t { kRaised, kReturned };
    // `nonblocking` is one more than the number of a non-blocking call among the communicator's calls; 0 for others.
    MpiTransport(comm::State& comm, std::shared_ptr<MpiExchange> exchange, Errors errors, std::uint64_t nonblocking = 0)
        : comm_(comm), exchange_(std::move(exchange)), errors_(errors), nonblocking_(nonblocking) {}

    State step() override;
    void give_up() override;
    bool has_arrived(int rank) const override;
    int code() const { return code_; }  // MPI's, with kFailed

  private:
    comm::State& comm_;
    const std::shared_ptr<MpiExchange> exchange_;
    const Errors errors_;
    const std::uint64_t nonblocking_;
    int code_ = MPI_SUCCESS;
};

class JobMessages final : public AgreementMessages {
  public:
    // `what` is the agreement's id among the ranks; 0: it has none, and no rank sends messages.
    JobMessages(const comm::State& comm, comm::OperationId what) : comm_(comm), what_(what) {}

    bool possible() const override { return what_ != 0; }
    void receive() override { comm::receive_failures(); }
    void tell_failure(const std::string& why) override;
    std::string failure_elsewhere() override;
    void tell_waiting() override;
    std::vector<int> waiting() const override;

  private:
    const comm::State& comm_;
    const comm::OperationId what_;
};

}  // namespace swy::coll
