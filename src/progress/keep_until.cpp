#include "progress/keep_until.hpp"

#include <list>
#include <mutex>

#include "real.hpp"

namespace swy::progress {
namespace {

struct Kept {
    MPI_Request request;
    std::shared_ptr<void> memory;
};
// A mutex of its own: operations are destroyed outside the engine's lock too.
constinit std::mutex kept_mutex;
// Not emptied at exit: MPI is gone then, and memory that it still worked on stays.
std::list<Kept>& kept() {
    static auto* all = new std::list<Kept>;
    return *all;
}

// Uses MPI_Request_get_status, the one call that raises no error inside MPI's progress. A request that MPI reports an
// error for is over.
bool is_over(Kept& one) {
    int done = 0;
    const int rc = real::Request_get_status(one.request, &done, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && !done)
        return false;
    real::Request_free(&one.request);
    return true;
}

}  // namespace

void keep_until(MPI_Request request, std::shared_ptr<void> memory) {
    if (request == MPI_REQUEST_NULL)
        return;
    const std::scoped_lock lock(kept_mutex);
    kept().push_back({request, std::move(memory)});
}

// MPI is asked without the mutex, for its progress may keep more.
void drop_kept() {
    std::list<Kept> asked;
    {
        const std::scoped_lock lock(kept_mutex);
        asked.swap(kept());
    }
    asked.remove_if(is_over);
    const std::scoped_lock lock(kept_mutex);
    kept().splice(kept().begin(), asked);
}

}  // namespace swy::progress
