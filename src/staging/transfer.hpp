// One side of a payload's transfer, once both ends know the transport: a pair communicator, the staged pipeline, or a
// copy within the process. Send and receive operations own one and step it; carriers implement it.
#pragma once

#include <string>

namespace swy::staging {

class Transfer {
  public:
    virtual ~Transfer() = default;

    // Does what can be done now; never blocks. Under the engine's lock. Returns true when something moved.
    virtual bool step() = 0;

    bool done() const { return done_; }
    const std::string& failure() const { return failure_; }  // once done; "" is success

    // Called when the peer has failed, or SWITCHYARD_TIMEOUT has passed: nothing of the program's memory is touched any
    // more when done() is true.
    virtual void give_up(const std::string& why) = 0;

  protected:
    void end(std::string failure = {}) {
        failure_ = std::move(failure);
        done_ = true;
    }

  private:
    bool done_ = false;
    std::string failure_;
};

}  // namespace swy::staging
