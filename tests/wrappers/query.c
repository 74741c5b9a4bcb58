/* Programs that ask before they pass device pointers are told yes where Switchyard carries them, and what the MPI
   beneath says where it does not.

   launch: -n 1 -- 0
   launch: -n 1 -x SWITCHYARD_REPORT=1 -- 0
   launch: -n 1 --gpus 1 -- 1
   launch: -n 1 --gpus 1 -x SWITCHYARD=0 -- 0
   launch: -n 1 --gpus 1 --plain -- 0 */
#include <mpi.h>

#include <mpi-ext.h> /* needs mpi.h before it */
#include <stdio.h>
#include <stdlib.h>

#include "device_memory.h"

int main(int argc, char** argv) {
    const int expected = argc > 1 ? atoi(argv[1]) : 0;
    MPI_Init(&argc, &argv);
    if (getenv("VGPU_COUNT") != NULL)
        device_free(device_alloc(16)); /* as a program with device memory has done by now */
    const int answer = MPIX_Query_cuda_support();
    if (answer != expected)
        fprintf(stderr, "MPIX_Query_cuda_support: %d, not %d\n", answer, expected);
    MPI_Finalize();
    return answer != expected;
}
