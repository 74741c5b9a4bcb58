#include "progress/wait.hpp"

#include <fmt/format.h>

#include <thread>

#include "error/error.hpp"
#include "progress/engine.hpp"
#include "progress/stall.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::progress {

Deadline::Deadline(double seconds, MPI_Comm comm) : comm_(comm), never_(seconds <= 0) {
    if (!never_)
        end_ = std::chrono::steady_clock::now() +
               std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

bool Deadline::passed() const {
    return (!never_ && std::chrono::steady_clock::now() >= end_) || (error::survives && is_lost());
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
