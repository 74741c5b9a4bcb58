! A Fortran program with `use mpi_f08`: its calls arrive, on host and on device memory.
! launch: -n 2 -- host
! launch: -n 2 --gpus 2 -- device
! launch: -n 3 --gpus 2 -- device
program exchange_f08
  use mpi_f08
  use device_memory
  implicit none
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2)
  type(MPI_Win) :: window
  include 'exchange_body.inc'
end program
