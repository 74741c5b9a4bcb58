#include "request/stand_in.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "error/error.hpp"

namespace swy::request {

constinit std::atomic<int> stand_ins{0};

int stand_in(Record& record, std::shared_ptr<progress::Operation> operation) {
    const int code = hand_out(std::move(operation), &record.stand_in);
    if (code == MPI_SUCCESS)
        stand_ins.fetch_add(1, std::memory_order_relaxed);
    return code;
}

int refuse_second_start(const Record& record) {
    return error::raise(
        Owner(record.receive.comm), MPI_ERR_REQUEST,
        fmt::format("MPI_Start: a request of {} is active already: complete it first", name(record.receive.call)));
}

void StandIns::find_in(int count) {
    for (int i = 0; requests_ != nullptr && i < count; ++i)
        if (const Found found = find(requests_[i]); found && found.record->stand_in != MPI_REQUEST_NULL)
            found_.emplace_back(i, found.record);
    if (!any())
        return;
    copy_.assign(requests_, requests_ + count);
    for (const auto& [place, record] : found_)
        copy_[place] = record->stand_in;
}

void StandIns::put_back() {
    for (const auto& [place, record] : found_) {
        if (copy_[place] == MPI_REQUEST_NULL) {
            record->stand_in = MPI_REQUEST_NULL;
            stand_ins.fetch_sub(1, std::memory_order_relaxed);
        }
        copy_[place] = requests_[place];
    }
    std::copy(copy_.begin(), copy_.end(), requests_);
}

}  // namespace swy::request
