#include "request/message_layer.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "progress/engine.hpp"
#include "real.hpp"

namespace swy::request {
namespace {

// The functions of mca_pml, the table through which all of MPI's messages go (ompi/mca/pml/pml.h of Open MPI 4.1 and
// 5.0). `mode` is standard, buffered, synchronous or ready.
using BlockingSend = int (*)(const void*, std::size_t, MPI_Datatype, int dest, int tag, int mode, MPI_Comm);
using NonblockingSend = int (*)(const void*, std::size_t, MPI_Datatype, int dest, int tag, int mode, MPI_Comm,
                                MPI_Request*);

constinit NonblockingSend isend = nullptr;

int send_with_progress(const void* buffer, std::size_t count, MPI_Datatype type, int dest, int tag, int mode,
                       MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = isend(buffer, count, type, dest, tag, mode, comm, &request);
    return rc == MPI_SUCCESS ? real::Wait(&request, MPI_STATUS_IGNORE) : rc;
}

bool is_named(const void* function, std::string_view name) {
    Dl_info info{};
    return function != nullptr && dladdr(function, &info) != 0 && info.dli_sname != nullptr && name == info.dli_sname;
}

std::string find_name() {
    // struct mca_base_component_2_1_0_t: the framework's name and the component's.
    constexpr std::size_t kFramework = 40, kComponent = 84, kName = 64;
    void* const library = progress::library_of_mpi();
    const auto* component =
        library != nullptr ? static_cast<const char*>(dlsym(library, "mca_pml_base_selected_component")) : nullptr;
    if (component == nullptr || std::string_view(component + kFramework, 4) != std::string_view("pml", 4))
        return {};
    return {component + kComponent, strnlen(component + kComponent, kName)};
}

}  // namespace

const std::string& message_layer() {
    static const std::string& name = *new std::string(find_name());  // not destroyed at exit
    return name;
}

// In the table of either version there follow, behind del_comm: revoke_comm (5.0 alone; "cm" has none), irecv_init,
// irecv, recv, isend_init, isend, send.
void have_blocking_sends_run_progress() {
    constexpr std::size_t kEntriesBefore = 8, kIsend = 4, kSend = 5;
    void* const library = progress::library_of_mpi();
    auto** const table = library != nullptr ? static_cast<void**>(dlsym(library, "mca_pml")) : nullptr;
    if (table == nullptr)
        return;
    std::size_t first = 0;
    while (first < kEntriesBefore && !is_named(table[first], "mca_pml_cm_del_comm"))
        ++first;
    if (first == kEntriesBefore)
        return;
    ++first;
    if (table[first] == nullptr)
        ++first;
    isend = reinterpret_cast<NonblockingSend>(table[first + kIsend]);
    const BlockingSend send = send_with_progress;
    table[first + kSend] = reinterpret_cast<void*>(send);
}

}  // namespace swy::request
