! device_memory.h for Fortran.
module device_memory
  use, intrinsic :: iso_c_binding
  implicit none
  interface
     function device_alloc(bytes) bind(c) result(memory)
       import :: c_ptr, c_size_t
       integer(c_size_t), value :: bytes
       type(c_ptr) :: memory
     end function
     subroutine device_copy(to, from, bytes) bind(c)
       import :: c_ptr, c_size_t
       type(c_ptr), value :: to, from
       integer(c_size_t), value :: bytes
     end subroutine
     integer(c_int) function setenv(name, value, replace) bind(c)
       import :: c_char, c_int
       character(kind=c_char), intent(in) :: name(*), value(*)
       integer(c_int), value :: replace
     end function
  end interface

contains

  ! Before MPI_Init: Open MPI 4.1's "rdma" needs process_vm_readv for MPI_Win_create, which containers forbid.
  subroutine choose_one_sided()
    use mpi
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
    integer :: length, ierr
    call MPI_Get_library_version(version, length, ierr)
    if (index(version, 'Open MPI v4') == 0) return
    if (setenv('OMPI_MCA_osc' // c_null_char, '^rdma,ucx' // c_null_char, 1_c_int) /= 0) error stop 3
  end subroutine

  ! An array of n integers on the device, or on the host.
  subroutine make(array, n, on_device)
    integer, pointer, intent(out) :: array(:)
    integer, intent(in) :: n
    logical, intent(in) :: on_device
    if (on_device) then
       call c_f_pointer(device_alloc(4_c_size_t * n), array, [n])
    else
       allocate(array(n))
    end if
  end subroutine

  subroutine put(array, values)
    integer, pointer, intent(in) :: array(:)
    integer, target, contiguous, intent(in) :: values(:)
    call device_or_host(c_loc(array), c_loc(values), size(values))
  end subroutine

  subroutine get(values, array)
    integer, target, contiguous, intent(inout) :: values(:)
    integer, pointer, intent(in) :: array(:)
    call device_or_host(c_loc(values), c_loc(array), size(values))
  end subroutine

  subroutine device_or_host(to, from, n)
    type(c_ptr), intent(in) :: to, from
    integer, intent(in) :: n
    character(len=16) :: kind
    integer, pointer :: a(:), b(:)
    call get_command_argument(1, kind)
    if (kind == 'device') then
       call device_copy(to, from, 4_c_size_t * n)
    else
       call c_f_pointer(to, a, [n])
       call c_f_pointer(from, b, [n])
       a = b
    end if
  end subroutine
end module
