#include "staging/messages.hpp"

#include <utility>
#include <vector>

#include "real.hpp"

namespace swy::staging {
namespace {

struct Left {
    MPI_Request request;
    device::Pinned buffer;
};

// Never destroyed: at exit MPI and the driver are gone.
std::vector<Left>& left() {
    static auto* const all = new std::vector<Left>;
    return *all;
}

// A request that MPI reports an error for is over.
bool over(MPI_Request& request, int& code) {
    int flag = 0;
    code = real::Test(&request, &flag, MPI_STATUS_IGNORE);
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

int Messages::test_oldest(bool& done) {
    int code = MPI_SUCCESS;
    done = over(requests_[oldest_], code);
    if (done) {
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
    for (std::size_t i = 0; i < buffers.size(); ++i)
        if (requests_[i] != MPI_REQUEST_NULL) {
            left().push_back({requests_[i], std::move(buffers[i])});
            requests_[i] = MPI_REQUEST_NULL;
        }
    pending_ = 0;
}

std::string Messages::describe(int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    return real::Error_string(code, text, &length) == MPI_SUCCESS ? text : "unknown error";
}

void collect_left() {
    int ignored = MPI_SUCCESS;
    std::erase_if(left(), [&](Left& one) { return over(one.request, ignored); });
}

}  // namespace swy::staging
