// The extensions of mpix_switchyard.h: a device for each process, groups by name, datatypes, an operator. A call that
// asks for one of the latter two opens the driver watch: from then on the wrappers of reductions have work to do in
// this process, with or without GPUs.
#include <mpix_switchyard.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "call/depth.hpp"
#include "comm/suggest.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "ext/named/named.hpp"
#include "mpi_compat/wrapper.hpp"
#include "progress/engine.hpp"

using namespace swy;

namespace {

MPI_Datatype given(datatype::Element element) {
    const MPI_Datatype type = datatype::extension_type(element);
    if (type != MPI_DATATYPE_NULL)
        driver_watch::open();
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
        driver_watch::open();
        progress::start_engine();  // divides the results of requests
    }
    return op;
}

extern "C" SWY_EXPORT int MPIX_Device_suggest(MPI_Comm comm, int* device) {
    const call::Inside guard;
    if (device == nullptr)
        return error::raise(Owner(comm), MPI_ERR_ARG, "MPIX_Device_suggest: the address for the device is NULL");
    std::vector<int> devices;
    const int code = comm::suggest(comm, devices);
    *device = devices.empty() ? MPI_UNDEFINED : devices.front();
    return code;
}

extern "C" SWY_EXPORT int MPIX_Device_suggest_multi(MPI_Comm comm, int max_devices, int devices[], int* ndevices) {
    const call::Inside guard;
    const auto refuse = [&](int mpi_class, const char* why) {
        return error::raise(Owner(comm), mpi_class, std::string("MPIX_Device_suggest_multi: ") + why);
    };
    if (max_devices < 0)
        return refuse(MPI_ERR_COUNT, "max_devices is negative");
    if (ndevices == nullptr || (devices == nullptr && max_devices > 0))
        return refuse(MPI_ERR_ARG, ndevices == nullptr ? "the address for the number of devices is NULL"
                                                       : "the list for the devices is NULL");
    std::vector<int> all;
    if (const int code = comm::suggest(comm, all); code != MPI_SUCCESS)
        return code;
    std::copy_n(all.begin(), std::min(all.size(), static_cast<std::size_t>(max_devices)), devices);
    *ndevices = static_cast<int>(all.size());
    return MPI_SUCCESS;
}

extern "C" SWY_EXPORT int MPIX_Device_near(const void* buffer, int ndevices, const int devices[], int* device) {
    const call::Inside guard;
    const auto refuse = [&](int mpi_class, const char* why) {
        return error::raise(Owner(), mpi_class, std::string("MPIX_Device_near: ") + why);
    };
    if (ndevices < 0)
        return refuse(MPI_ERR_COUNT, "ndevices is negative");
    if (device == nullptr || (devices == nullptr && ndevices > 0))
        return refuse(MPI_ERR_ARG,
                      device == nullptr ? "the address for the device is NULL" : "the list of devices is NULL");
    *device = comm::near(buffer, std::span(devices, static_cast<std::size_t>(ndevices)));
    return MPI_SUCCESS;
}

namespace {

// Checks the name. Returns MPI_ERR_OTHER before MPI_Init and after MPI_Finalize, when no group can be made.
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
    const call::Inside guard;
    if (const int code = check_name("MPIX_Group_declare", name); code != MPI_SUCCESS)
        return code;
    if (group == MPI_GROUP_NULL)
        return error::raise(Owner(), MPI_ERR_GROUP, std::string("MPIX_Group_declare: ") + name + " is MPI_GROUP_NULL");
    return named::declare_group(name, group);
}

extern "C" SWY_EXPORT int MPIX_Comm_from_name(const char* name, MPI_Comm* comm) {
    std::string problem;
    {
        const call::Inside guard;
        if (const int code = check_name("MPIX_Comm_from_name", name); code != MPI_SUCCESS)
            return code;
        if (comm == nullptr)
            return error::raise(Owner(), MPI_ERR_ARG, "MPIX_Comm_from_name: the address for the communicator is NULL");
        if (const int code = named::from_name(name, *comm, problem); code != MPI_SUCCESS)
            return code;
        if (!problem.empty())
            return error::raise(Owner(), MPI_ERR_ARG, "MPIX_Comm_from_name: " + problem);
    }
    return driver_watch::closed() ? MPI_SUCCESS : coll::on_comm_created(*comm);
}
