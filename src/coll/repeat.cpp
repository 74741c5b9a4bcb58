#include "coll/repeat.hpp"

#include <algorithm>

#include "coll/agree.hpp"
#include "datatype/quick.hpp"

namespace swy::coll {
namespace {

bool plain(const Operand& operand) {
    const bool by_count = operand.shape == Shape::kOne || operand.shape == Shape::kRanks;
    return by_count && operand.at == At::kAll && datatype::predefined_size(operand.type) != 0;
}

Repeat::Buffer buffer_of(const Operand& operand) {
    return {operand.count, operand.type, operand.shape, operand.address == MPI_IN_PLACE};
}

bool same(const Repeat::Buffer& a, const Repeat::Buffer& b) {
    return a.count == b.count && a.type == b.type && a.shape == b.shape && a.in_place == b.in_place;
}

}  // namespace

bool Repeat::possible(const Call& call) {
    constexpr std::size_t kMost = std::tuple_size_v<decltype(buffer_)>;
    return call.operands.size() <= kMost && std::all_of(call.operands.begin(), call.operands.end(), plain);
}

Repeat::Repeat(const Call& call, const Vote& vote)
    : id_(call.id), root_(call.root), op_(call.op), buffers_(call.operands.size()), record_(host_record(call, vote)) {
    std::transform(call.operands.begin(), call.operands.end(), buffer_.begin(), buffer_of);
}

bool Repeat::is(const Call& call) const {
    if (call.id != id_ || call.root != root_ || call.op != op_ || call.operands.size() != buffers_)
        return false;
    for (std::size_t i = 0; i < buffers_; ++i)
        if (call.operands[i].at != At::kAll || !same(buffer_of(call.operands[i]), buffer_[i]))
            return false;
    return true;
}

}  // namespace swy::coll
