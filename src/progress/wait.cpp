#include "progress/wait.hpp"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "error/error.hpp"
#include "progress/engine.hpp"
#include "progress/stall.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::progress {

Deadline::Deadline(double seconds, MPI_Comm comm) : comm_(comm), never_(seconds <= 0) {
    if (never_)
        return;
    constexpr int kPart = 4;
    const auto limit =
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    more_ = limit / kPart;
    looked_ = std::chrono::steady_clock::now();
    end_ = looked_ + limit;
}

bool Deadline::passed() const {
    return (!never_ && is_late()) || (error::survives && is_lost());
}

bool Deadline::is_late() const {
    const auto now = std::chrono::steady_clock::now();
    const bool was_away = now - std::exchange(looked_, now) > more_;
    if (now >= end_ && was_away && !std::exchange(extended_, true))
        end_ = now + more_;
    return now >= end_;
}

bool Deadline::is_lost() const {
    constexpr unsigned kSeldom = 16;  // MPI answers at once, and whoever waits asks in every turn
    return comm_ != MPI_COMM_NULL && looks_++ % kSeldom == 0 && error::loss_of(comm_);
}

std::string Deadline::why() const {
    const error::Loss loss = comm_ != MPI_COMM_NULL ? error::loss_of(comm_) : error::Loss{};
    if (!loss)
        error::note_timeout();
    return loss ? loss.what : fmt::format("SWITCHYARD_TIMEOUT ({:g} s) has passed", settings::values().timeout);
}

constinit std::atomic<bool> has_self{false};

void progress() {
    Waiting::look();
    if (progress_of_mpi()) [[likely]]
        return;
    if (!has_self.load(std::memory_order_relaxed)) [[unlikely]] {
        std::this_thread::yield();
        return;
    }
    int flag = 0;
    // A probe on MPI_COMM_SELF takes no message from anybody and runs the progress engine (which yields when the job
    // asks for that).
    real::Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

device::Result wait_for_program(device::Stream& stream) {
    return stream.wait_for_program(settings::values().sync, progress);
}

bool wait(MPI_Request& request, const Deadline& deadline) {
    int done = 0;
    while (real::Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        if (deadline.passed())
            return false;
    return true;
}

bool see_off(MPI_Request& request, MPI_Comm comm) {
    return wait(request, Deadline(settings::values().timeout, comm));
}

}  // namespace swy::progress
