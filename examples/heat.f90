! Heat flow in a plate, with halos exchanged in device memory: each rank has a strip of columns on its GPU and trades its border columns
! with its neighbours by MPI_Sendrecv on device addresses. The arithmetic is done on the host, so that the program needs no kernels and
! runs on virtual GPUs too; in a real program it would be kernels.
!
!   mpifort -O2 heat.f90 -o heat -L$CUDA_HOME/lib64 -lcudart
!   switchyard run -n 4 -- ./heat                       on real GPUs
!   switchyard run --virtual-gpus 4 -n 4 -- ./heat      without any
!
! Exit status 0: the ranks' temperatures are to the last bit those that one process alone computes. Without a GPU everything is in host
! memory and the result is the same.
module cuda_runtime
  use iso_c_binding
  implicit none
  integer(c_int), parameter :: memcpy_default = 4
  interface
    integer(c_int) function cuda_get_device_count(count) bind(C, name="cudaGetDeviceCount")
      import c_int
      integer(c_int), intent(out) :: count
    end function
    integer(c_int) function cuda_set_device(device) bind(C, name="cudaSetDevice")
      import c_int
      integer(c_int), value :: device
    end function
    integer(c_int) function cuda_malloc(address, bytes) bind(C, name="cudaMalloc")
      import c_int, c_ptr, c_size_t
      type(c_ptr), intent(out) :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function cuda_free(address) bind(C, name="cudaFree")
      import c_int, c_ptr
      type(c_ptr), value :: address
    end function
    integer(c_int) function cuda_memcpy(to, from, bytes, kind) bind(C, name="cudaMemcpy")
      import c_int, c_ptr, c_size_t
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
      integer(c_int), value :: kind
    end function
  end interface
end module

program heat
  use iso_c_binding
  use mpi_f08
  use cuda_runtime
  implicit none
  integer, parameter :: rows = 512, columns = 240, steps = 100
  integer, parameter :: hot_row = 170, hot_column = 120
  integer :: rank, ranks, left, right, mine, first, step, failed
  logical :: on_gpu
  type(c_ptr) :: plate                                  ! address of this rank's strip, in device memory where there is a GPU
  real(c_double), pointer, contiguous :: strip(:, :)    ! the same as an array: only its address is used here, never its elements
  real(c_double), allocatable, target :: now(:, :), next(:, :)
  real(c_double), allocatable :: whole(:, :)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call choose_gpu()
  if (rank == 0) print '(a,i0,a)', 'heat: ', ranks, merge(' ranks, device memory       ', ' ranks, no GPU: host memory ', on_gpu)

  ! Columns first .. first + mine - 1 of the plate are this rank's; columns 0 and mine + 1 of its strip are the halos.
  first = 1 + rank * columns / ranks
  mine = (rank + 1) * columns / ranks - first + 1
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  allocate (now(rows, 0:mine + 1), next(rows, 0:mine + 1))
  call start(now, first, mine)
  call allocate_plate(bytes_of(now))
  call c_f_pointer(plate, strip, [rows, mine + 2])      ! column j of now is column j + 1 here
  call to_plate(now)

  do step = 1, steps
    call MPI_Sendrecv(strip(1, 2), rows, MPI_DOUBLE_PRECISION, left, 1, strip(1, mine + 2), rows, MPI_DOUBLE_PRECISION, right, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(strip(1, mine + 1), rows, MPI_DOUBLE_PRECISION, right, 2, strip(1, 1), rows, MPI_DOUBLE_PRECISION, left, 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call from_plate(now)
    call relax(now, next, mine, left == MPI_PROC_NULL, right == MPI_PROC_NULL)
    call to_plate(next)
  end do

  allocate (whole(rows, columns))
  call collect(whole)
  failed = 0
  if (rank == 0) call compare(whole, failed)
  call release_plate()
  call MPI_Finalize()
  if (failed /= 0) stop 1

contains

  ! Takes the GPU that goes with this rank's place on its node.
  subroutine choose_gpu()
    type(MPI_Comm) :: node
    integer :: place
    integer(c_int) :: gpus
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
    call MPI_Comm_rank(node, place)
    call MPI_Comm_free(node)
    gpus = 0
    on_gpu = cuda_get_device_count(gpus) == 0
    if (on_gpu) on_gpu = gpus > 0
    if (on_gpu) call check(cuda_set_device(int(mod(place, int(gpus)), c_int)), 'cudaSetDevice')
  end subroutine

  subroutine check(status, what)
    integer(c_int), intent(in) :: status
    character(*), intent(in) :: what
    if (status == 0) return
    print '(3a,i0)', 'heat: ', what, ' failed with CUDA error ', status
    call MPI_Abort(MPI_COMM_WORLD, 2)
  end subroutine

  integer(c_size_t) function bytes_of(array)
    real(c_double), intent(in) :: array(:, :)
    bytes_of = size(array, kind=c_size_t) * c_sizeof(1.0_c_double)
  end function

  subroutine allocate_plate(bytes)
    integer(c_size_t), intent(in) :: bytes
    real(c_double), pointer, contiguous :: host(:)
    if (on_gpu) then
      call check(cuda_malloc(plate, bytes), 'cudaMalloc')
    else
      allocate (host(bytes / c_sizeof(1.0_c_double)))
      plate = c_loc(host)
    end if
  end subroutine

  subroutine release_plate()
    if (on_gpu) then
      call check(cuda_free(plate), 'cudaFree')
    else
      deallocate (strip)
    end if
  end subroutine

  subroutine to_plate(array)
    real(c_double), intent(in), target, contiguous :: array(:, :)
    if (on_gpu) then
      call check(cuda_memcpy(plate, c_loc(array), bytes_of(array), memcpy_default), 'cudaMemcpy')
    else
      strip = array
    end if
  end subroutine

  subroutine from_plate(array)
    real(c_double), intent(inout), target, contiguous :: array(:, :)
    if (on_gpu) then
      call check(cuda_memcpy(c_loc(array), plate, bytes_of(array), memcpy_default), 'cudaMemcpy')
    else
      array = strip
    end if
  end subroutine

  ! A cold plate with a hot spot and a warm left edge.
  subroutine start(t, from, width)
    integer, intent(in) :: from, width
    real(c_double), intent(out) :: t(rows, 0:width + 1)
    integer :: i, j
    do j = 0, width + 1
      do i = 1, rows
        t(i, j) = 100 * exp(-((i - hot_row)**2 + (from + j - 1 - hot_column)**2) / 800.0_c_double)
        if (from + j - 1 <= 1) t(i, j) = 20
      end do
    end do
  end subroutine

  ! One explicit step; the plate's edges keep their temperature.
  subroutine relax(t, t_next, width, at_left_edge, at_right_edge)
    integer, intent(in) :: width
    logical, intent(in) :: at_left_edge, at_right_edge
    real(c_double), intent(in) :: t(rows, 0:width + 1)
    real(c_double), intent(out) :: t_next(rows, 0:width + 1)
    integer :: i, j
    t_next = t
    do j = merge(2, 1, at_left_edge), merge(width - 1, width, at_right_edge)
      do i = 2, rows - 1
        t_next(i, j) = t(i, j) + 0.2_c_double * (t(i - 1, j) + t(i + 1, j) + t(i, j - 1) + t(i, j + 1) - 4 * t(i, j))
      end do
    end do
  end subroutine

  ! All strips into one plate on rank 0: sent from device memory, received into host memory.
  subroutine collect(all)
    real(c_double), intent(out) :: all(rows, columns)
    integer :: counts(ranks), starts(ranks), r
    do r = 1, ranks
      starts(r) = rows * ((r - 1) * columns / ranks)
      counts(r) = rows * (r * columns / ranks) - starts(r)
    end do
    call MPI_Gatherv(strip(1, 2), rows * mine, MPI_DOUBLE_PRECISION, all, counts, starts, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
  end subroutine

  subroutine compare(together, wrong)
    real(c_double), intent(in) :: together(rows, columns)
    integer, intent(out) :: wrong
    real(c_double), allocatable :: alone(:, :), alone_next(:, :)
    integer :: s
    allocate (alone(rows, 0:columns + 1), alone_next(rows, 0:columns + 1))
    call start(alone, 1, columns)
    do s = 1, steps
      call relax(alone, alone_next, columns, .true., .true.)
      alone = alone_next
    end do
    wrong = count(abs(together - alone(:, 1:columns)) > 0)
    print '(a,f0.3,a,i0)', 'heat: hottest point ', maxval(together), '; values that differ from one process alone: ', wrong
    if (maxval(together) < 20 .or. maxval(together) > 100) wrong = wrong + 1
    print '(a)', merge('passed', 'FAILED', wrong == 0)
  end subroutine

end program
