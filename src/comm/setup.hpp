// A set-up: the ranks of a communicator get an NCCL communicator for the devices that they now use, an idle one or a
// new one, or learn the reason why there is none. It is an operation of the engine that keeps nobody waiting. For
// collective_setup.hpp, and for buffer slots (buffer_slots.hpp), whose set-ups src/ext/multi begins.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "call/reason.hpp"
#include "comm/exchange.hpp"
#include "comm/job_messages.hpp"
#include "comm/setup_facts.hpp"
#include "comm/state.hpp"
#include "device/device.hpp"
#include "nccl/communicator.hpp"
#include "progress/operation.hpp"
#include "progress/wait.hpp"

namespace swy::comm {

// The ranks see to it that all start the same set-ups of a communicator, one after the other. Under the engine's lock.
class Setup final : public progress::Operation {
  public:
    struct Plan {
        std::vector<device::Location> devices;  // this process's, in the order of its members
        std::vector<int> numbers;               // how many devices each rank has
        std::vector<int> tags;                  // as in exchange.hpp
        Reason obstacle = Reason::kNone;        // what keeps this process's devices from NCCL
        bool needed = true;                     // by this process: where none needs it, nothing is changed
        std::shared_ptr<nccl::Communicator> before = nullptr;  // the one that the devices have had
    };
    struct Result {
        Reason why = Reason::kNone;  // why NCCL does not serve these devices: the same on all ranks unless given up
        bool changed = false;        // it replaces what the ranks have had, with the reason and what follows
        std::shared_ptr<nccl::Communicator> nccl;  // null where there is an obstacle
        Machine machine;
        bool given_up = false;  // other ranks may have another result, and wait for messages of this rank
    };
    // `ended`, where it is not empty, is called when the set-up ends.
    Setup(State& state, Plan plan, std::function<void(Result&)> ended = {});
    ~Setup() override;

    bool step() override;
    std::string describe() const override;

    const std::vector<device::Location>& devices() const { return plan_.devices; }
    Result& result() { return result_; }  // once done

  private:
    enum class Step : std::uint8_t { kNew, kFacts, kTaking, kIds, kMaking, kTelling, kFailures, kRoom };
    struct Head {
        std::uint8_t obstacle = 0, needed = 0;
    };
    struct Proposal {  // rank 0's
        OperationId operation_id = 0;
        std::uint64_t reuse = 0;  // id of an idle communicator; 0: none
    };
    struct Made {
        std::uint8_t made = 0, told = 0;  // told: it failed here, and the other ranks have a message
        std::uint8_t late = 0, idle = 0;  // it took too long here; an idle communicator could be ended
    };

    bool advance();
    int go_on();
    int begin_round(Step step, std::vector<std::size_t> bytes, std::size_t added = 0, std::function<void()> add = {});
    std::byte* block(std::size_t rank);  // in the memory of the last round
    int tell_facts();
    void read_facts();
    int settle_facts();
    int tell_taken();
    int settle_taken();
    int draw_ids();
    int first_member() const;
    int begin_making();
    bool step_making();
    int tell_made(const std::string& problem);
    void settle_made();
    void make_room();
    void give_up();
    int end(Reason why);

    State& state_;
    const Plan plan_;
    const std::function<void(Result&)> ended_;
    Exchange exchange_;
    progress::Deadline deadline_;
    Step step_ = Step::kNew;
    Result result_;
    std::vector<std::size_t> starts_;  // of the ranks' blocks in the last round
    std::shared_ptr<std::vector<std::byte>> memory_ = std::make_shared<std::vector<std::byte>>();

    Reason obstacle_ = Reason::kNone;  // of any rank
    bool needed_ = false;
    std::vector<Fact> facts_;
    nccl::Group group_;
    std::vector<std::size_t> drawers_;  // rank that draws each unique id
    Proposal proposal_;
    Made mine_;
    std::string problem_;  // of the last attempt, here
    enum class Again : std::uint8_t { kMaybe, kNow, kNoMore } again_ = Again::kMaybe;
    int told_by_others_ = 0;
    std::shared_ptr<nccl::Communicator> found_;
};

// Says once in a process what kept it from NCCL; the report counts the calls that suffered.
void complain(const State& state, const std::string& problem);

// The device that this process last brought to an NCCL communicator; -1 when there was none. For the report.
int device_in_use();
void note_device(int ordinal);  // a pair communicator of point-to-point uses it

}  // namespace swy::comm
