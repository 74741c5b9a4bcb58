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
    const MPI_Win handle = PMPI_Win_f2c(*win);
    if (*key == MPI_WIN_MODEL && window::is_separate(handle))
        *value = MPI_WIN_SEPARATE;
    if (void* const base = *key == MPI_WIN_BASE ? window::base(handle) : nullptr; base != nullptr)
        *value = reinterpret_cast<MPI_Aint>(base);
}
