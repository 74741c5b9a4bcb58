// MPI_WIN_GET_ATTR of Fortran. Open MPI's other Fortran bindings call the C functions, which have wrappers; this one
// looks up the attribute itself. Its names are those that compilers make of it. `use mpi_f08` calls the profiling
// names.
#include <dlfcn.h>

#include "call/entry_point.hpp"
#include "window/window.hpp"

using namespace swy;

namespace {

using WinGetAttr = void(const MPI_Fint*, const MPI_Fint*, MPI_Aint*, MPI_Fint*, MPI_Fint*);

WinGetAttr* real_win_get_attr() {
    static auto* const found = reinterpret_cast<WinGetAttr*>(dlsym(RTLD_NEXT, "pmpi_win_get_attr_"));
    return found;
}

}  // namespace

#define SWY_FORTRAN(name) \
    extern "C" SWY_EXPORT void name(const MPI_Fint*, const MPI_Fint*, MPI_Aint*, MPI_Fint*, MPI_Fint*)

SWY_FORTRAN(mpi_win_get_attr_);
SWY_FORTRAN(mpi_win_get_attr) __attribute__((alias("mpi_win_get_attr_")));
SWY_FORTRAN(mpi_win_get_attr__) __attribute__((alias("mpi_win_get_attr_")));
SWY_FORTRAN(MPI_WIN_GET_ATTR) __attribute__((alias("mpi_win_get_attr_")));
SWY_FORTRAN(pmpi_win_get_attr) __attribute__((alias("mpi_win_get_attr_")));
SWY_FORTRAN(pmpi_win_get_attr_) __attribute__((alias("mpi_win_get_attr_")));
SWY_FORTRAN(pmpi_win_get_attr__) __attribute__((alias("mpi_win_get_attr_")));
SWY_FORTRAN(PMPI_WIN_GET_ATTR) __attribute__((alias("mpi_win_get_attr_")));

// The value is an address or a number, and the numbers of predefined keys are C's.
extern "C" SWY_EXPORT void mpi_win_get_attr_(const MPI_Fint* win, const MPI_Fint* key, MPI_Aint* value, MPI_Fint* flag,
                                             MPI_Fint* ierr) {
    WinGetAttr* const real = real_win_get_attr();
    if (real == nullptr) {  // no Fortran binding of MPI's stands behind this library
        *ierr = MPI_ERR_INTERN;
        return;
    }
    real(win, key, value, flag, ierr);
    if (window::none_known() || *ierr != MPI_SUCCESS || *flag == 0)
        return;
    void* found = nullptr;
    if (!window::attribute(PMPI_Win_f2c(*win), *key, found))
        return;
    if (*key == MPI_WIN_BASE)
        *value = reinterpret_cast<MPI_Aint>(found);
    else
        *value = *key == MPI_WIN_SIZE ? *static_cast<MPI_Aint*>(found) : *static_cast<int*>(found);
}
