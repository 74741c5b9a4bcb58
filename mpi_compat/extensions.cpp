// The datatypes and the operator of mpix_switchyard.h. Whoever asks for one opens the gate: from then on the doors of
// reductions have something to do in this process, with or without GPUs.
#include <mpix_switchyard.h>

#include "datatype/extension.hpp"
#include "mpi_compat/door.hpp"
#include "request/engine.hpp"

using namespace swy;

namespace {

MPI_Datatype given(datatype::Element element) {
    const MPI_Datatype type = datatype::extension_type(element);
    if (type != MPI_DATATYPE_NULL)
        gate::open = true;
    return type;
}

}  // namespace

extern "C" SWY_EXPORT MPI_Datatype MPIX_Type_float16(void) {
    return given(datatype::Element::kFloat16);
}

extern "C" SWY_EXPORT MPI_Datatype MPIX_Type_bfloat16(void) {
    return given(datatype::Element::kBfloat16);
}

extern "C" SWY_EXPORT MPI_Datatype MPIX_Type_float8_e4m3(void) {
    return given(datatype::Element::kFloat8E4m3);
}

extern "C" SWY_EXPORT MPI_Datatype MPIX_Type_float8_e5m2(void) {
    return given(datatype::Element::kFloat8E5m2);
}

extern "C" SWY_EXPORT MPI_Op MPIX_Op_avg(void) {
    const MPI_Op op = datatype::average_operator();
    if (op != MPI_OP_NULL) {
        gate::open = true;
        request::start_engine();  // divides what a request stands for; the router says so where it does not run
    }
    return op;
}
