// The extensions of mpix_switchyard.h: a device for each process, groups by name, datatypes, an operator. Whoever asks
// for one of the latter opens the gate: from then on the doors of reductions have something to do in this process, with
// or without GPUs.
#include <mpix_switchyard.h>

#include <string>

#include "comm/named.hpp"
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

namespace {

// MPI_ERR_OTHER before MPI_Init and after MPI_Finalize, where there is nothing to make a group of.
int check_name(const char* function, const char* name) {
    int up = 0;
    int down = 0;
    real::Initialized(&up);
    real::Finalized(&down);
    if (up == 0 || down != 0)
        return error::raise(
            Owner(), MPI_ERR_OTHER,
            std::string(function) + ": MPI_COMM_WORLD is not there: call it between MPI_Init and MPI_Finalize");
    if (name == nullptr || *name == '\0')
        return error::raise(Owner(), MPI_ERR_ARG, std::string(function) + ": a group has a name");
    return MPI_SUCCESS;
}

}  // namespace

extern "C" SWY_EXPORT int MPIX_Group_declare(const char* name, MPI_Group group) {
    const route::Inside guard;
    if (const int code = check_name("MPIX_Group_declare", name); code != MPI_SUCCESS)
        return code;
    if (group == MPI_GROUP_NULL)
        return error::raise(Owner(), MPI_ERR_GROUP, std::string("MPIX_Group_declare: ") + name + " is MPI_GROUP_NULL");
    return comm::declare_group(name, group);
}

extern "C" SWY_EXPORT int MPIX_Comm_from_name(const char* name, MPI_Comm* comm) {
    std::string problem;
    {
        const route::Inside guard;
        if (const int code = check_name("MPIX_Comm_from_name", name); code != MPI_SUCCESS)
            return code;
        if (comm == nullptr)
            return error::raise(Owner(), MPI_ERR_ARG, "MPIX_Comm_from_name: the address for the communicator is NULL");
        if (const int code = comm::from_name(name, *comm, problem); code != MPI_SUCCESS)
            return code;
        if (!problem.empty())
            return error::raise(Owner(), MPI_ERR_ARG, "MPIX_Comm_from_name: " + problem);
    }
    return gate::closed() ? MPI_SUCCESS : route::has_made(MPI_COMM_NULL, *comm);
}
