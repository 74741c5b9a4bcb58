#include "staging/average.hpp"

#include "datatype/extension.hpp"
#include "pack/group.hpp"
#include "pack/operands.hpp"

namespace swy::staging {

Average::Average(const Call& call, const Operand* operands) {
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
        const pack::Data data = pack::data_of(call, operands[i]);
        if (data.writes.empty())
            continue;
        // A predefined type's elements, so one segment.
        const pack::Segment& all = data.writes.front();
        result_ = static_cast<std::byte*>(operands[i].address) + all.offset;
        count_ = all.count;
        element_ = datatype::element_of(operands[i].type).element;
        processes_ =
            pack::group_of(call.owner.comm).others;  // the sum is over the remote group on an intercommunicator
    }
}

void Average::divide() const {
    if (count_ != 0)
        datatype::divide(result_, count_, element_, processes_);
}

}  // namespace swy::staging
