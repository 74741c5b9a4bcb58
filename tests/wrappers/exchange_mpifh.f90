! A Fortran program with mpif.h: its calls arrive, on host and on device memory.
! launch: -n 2 -- host
! launch: -n 2 --gpus 2 -- device
! launch: -n 3 --gpus 2 -- device
program exchange_mpifh
  use device_memory
  implicit none
  include 'mpif.h'
  integer :: status(MPI_STATUS_SIZE)
  integer :: requests(2)
  integer :: window
  include 'exchange_body.inc'
end program
