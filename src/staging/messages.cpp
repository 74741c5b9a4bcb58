#include "staging/messages.hpp"

#include <utility>

#include "progress/keep_until.hpp"
#include "real.hpp"

namespace swy::staging {
namespace {

// A request that MPI reports an error for is over.
bool over(MPI_Request& request, MPI_Status& status, int& code) {
    int flag = 0;
    code = real::Test(&request, &flag, &status);
    return flag != 0 || code != MPI_SUCCESS;
}

}  // namespace

int Messages::started(int code) {
    if (code == MPI_SUCCESS)
        ++pending_;
    else
        next() = MPI_REQUEST_NULL;
    return code;
}

int Messages::send(const std::byte* data, std::size_t bytes) {
    return started(real::Isend(data, static_cast<int>(bytes), MPI_BYTE, route_.peer, route_.tag, route_.comm, &next()));
}

int Messages::receive(std::byte* data, std::size_t bytes) {
    return started(real::Irecv(data, static_cast<int>(bytes), MPI_BYTE, route_.peer, route_.tag, route_.comm, &next()));
}

int Messages::test_oldest(bool& done, std::size_t& bytes) {
    int code = MPI_SUCCESS;
    MPI_Status status{};
    done = over(requests_[oldest_], status, code);
    if (done) {
        bytes = status._ucount;
        requests_[oldest_] = MPI_REQUEST_NULL;
        oldest_ = (oldest_ + 1) % kMost;
        --pending_;
    }
    return code;
}

void Messages::cancel() {
    for (MPI_Request& request : requests_)
        if (request != MPI_REQUEST_NULL)
            real::Cancel(&request);
}

void Messages::leave(std::span<device::Pinned> buffers) {
    for (std::size_t i = 0; i < kMost; ++i)
        if (requests_[i] != MPI_REQUEST_NULL)
            progress::keep_until(
                std::exchange(requests_[i], MPI_REQUEST_NULL),
                i < buffers.size() ? std::make_shared<device::Pinned>(std::move(buffers[i])) : nullptr);
    pending_ = 0;
}

}  // namespace swy::staging
