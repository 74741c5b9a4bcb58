// SWITCHYARD_STALL: a thread that waits inside the library for that long says so on standard error, once and then at
// growing intervals. Whoever waits makes a Waiting, which costs a few instructions; the rest is done when a wait lasts.
#pragma once

#include <chrono>
#include <string>

namespace swy::progress {

// Says, while it lives, what this thread does or waits for. Where there are several, the line has the clauses of all,
// the outermost first: the call, say, and then what it waits for.
class Waiting {
  public:
    // `describe` returns the clause. It is called in a turn of MPI's progress, not under the engine's lock. The
    // innermost one returns "" where another rank says it for all, or what it needs is not to be had just now: then
    // this one says nothing, and is asked again later.
    template <typename F>
    explicit Waiting(const F& describe)
        : object_(&describe),
          describe_([](const void* object) { return (*static_cast<const F*>(object))(); }),
          outer_(innermost) {
        innermost = this;
    }
    template <typename F>
    explicit Waiting(const F&& describe) = delete;  // it must live as long as this
    ~Waiting() { innermost = outer_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    // Called in each turn of a wait, and of MPI's progress while operations are alive. Not under the engine's lock.
    static void look() {
        if (innermost != nullptr) [[unlikely]]
            innermost->turn();
    }

  private:
    using Clock = std::chrono::steady_clock;

    void turn();
    bool say(double seconds) const;
    std::string clause() const { return describe_(object_); }

    static constinit thread_local Waiting* innermost __attribute__((tls_model("initial-exec")));

    const void* const object_;
    std::string (*const describe_)(const void*);
    Waiting* const outer_;
    unsigned turns_ = 0;
    Clock::time_point since_{}, next_{};  // none before the first look at the clock
};

}  // namespace swy::progress
