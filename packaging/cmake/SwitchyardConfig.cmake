# For CMake's find_package:
#   find_package(Switchyard REQUIRED)
#   target_link_libraries(app PRIVATE MPI::MPI_C Switchyard::Switchyard)
# The target is what swycc does: the headers, and the library in front of libmpi, wherever it is named.
# Switchyard_VGPU_DIR is the folder of the virtual GPUs' libraries. Everything is found from this file's own place.
get_filename_component(_swy_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
# One folder up from lib, two from Debian's lib/x86_64-linux-gnu.
find_path(Switchyard_INCLUDE_DIR mpix_switchyard.h
    PATHS "${_swy_libdir}/../include" "${_swy_libdir}/../../include" NO_DEFAULT_PATH)
set(_swy_library "${_swy_libdir}/libswitchyard.so.1")
set(Switchyard_VGPU_DIR "${_swy_libdir}/switchyard/vgpu")
if(NOT Switchyard_INCLUDE_DIR OR NOT EXISTS "${_swy_library}")
    set(Switchyard_FOUND FALSE)
    set(Switchyard_NOT_FOUND_MESSAGE "${CMAKE_CURRENT_LIST_DIR} has no libswitchyard.so.1 and mpix_switchyard.h near it")
    return()
endif()
mark_as_advanced(Switchyard_INCLUDE_DIR)

if(NOT TARGET Switchyard::Switchyard)
    add_library(Switchyard::Switchyard INTERFACE IMPORTED)
    # The option's folder has an mpi-ext.h that stands before Open MPI's: compilers search -I before the folders of
    # imported targets, which are -isystem, in whichever order the targets are named.
    set_target_properties(Switchyard::Switchyard PROPERTIES
        INTERFACE_COMPILE_OPTIONS "-I${Switchyard_INCLUDE_DIR}/switchyard"
        INTERFACE_INCLUDE_DIRECTORIES "${Switchyard_INCLUDE_DIR}")
    # Options stand before all libraries, so before libmpi. No function of the program names Switchyard, so a linker that
    # drops "unneeded" libraries would drop it.
    set(_swy_options "-Wl,--push-state,--no-as-needed,${_swy_library},--pop-state")
    if(NOT "${_swy_libdir}" IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES
        AND NOT "${_swy_libdir}" IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND _swy_options "-Wl,-rpath,${_swy_libdir}")
    endif()
    set_property(TARGET Switchyard::Switchyard PROPERTY INTERFACE_LINK_OPTIONS "${_swy_options}")
endif()
unset(_swy_library)
unset(_swy_options)
unset(_swy_libdir)
