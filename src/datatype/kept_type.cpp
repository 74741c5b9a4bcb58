#include "datatype/kept_type.hpp"

#include <utility>

#include "datatype/element.hpp"
#include "datatype/extension.hpp"
#include "datatype/quick.hpp"
#include "real.hpp"

namespace swy::datatype {
namespace {

bool can_go(MPI_Datatype type) {
    ElementOf extension;
    return type != MPI_DATATYPE_NULL && !predefined(type) && !find_extension(type, extension);
}

}  // namespace

// A type of one element. Not made by MPI_Type_dup, which would call the program's attribute callbacks.
KeptType::KeptType(MPI_Datatype type) : type_(type) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    if (!can_go(type) || real::Type_contiguous(1, type, &made) != MPI_SUCCESS)
        return;
    own_ = real::Type_commit(&made) == MPI_SUCCESS;
    if (own_)
        type_ = made;
    else
        real::Type_free(&made);
}

KeptType::KeptType(KeptType&& other) noexcept : type_(other.type_), own_(std::exchange(other.own_, false)) {}

KeptType::~KeptType() {
    int down = 0;
    real::Finalized(&down);
    if (own_ && !down)
        real::Type_free(&type_);
}

}  // namespace swy::datatype
