#include "call/comm_name.hpp"

#include "real.hpp"

namespace swy::call {

std::string comm_name(MPI_Comm comm) {
    char text[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    real::Comm_get_name(comm, text, &length);
    return length > 0 ? text : "a communicator without name";
}

}  // namespace swy::call
