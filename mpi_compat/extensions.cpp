// The extensions of mpix_switchyard.h: a device for each process, datatypes, an operator. Whoever asks for one of the
// latter opens the gate: from then on the doors of reductions have something to do in this process, with or without
// GPUs.
#include <mpix_switchyard.h>

#include "comm/suggest.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "mpi_compat/door.hpp"
#include "request/engine.hpp"
#include "route/depth.hpp"

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

extern "C" SWY_EXPORT int MPIX_Device_suggest(MPI_Comm comm, int* device) {
    const route::Inside guard;
    if (device == nullptr)
        return error::raise(Owner(comm), MPI_ERR_ARG, "MPIX_Device_suggest: the address for the device is NULL");
    return comm::suggest(comm, *device);
}
