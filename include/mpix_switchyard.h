/* Switchyard's extensions to MPI. A program that calls them links with libswitchyard (swycc, or pkg-config switchyard);
 * a program that only uses MPI needs neither this header nor a new link: everything else that Switchyard does is MPI
 * itself. */
#ifndef MPIX_SWITCHYARD_H
#define MPIX_SWITCHYARD_H

#include <mpi.h>

/* The version of this header; MPIX_Switchyard_version gives that of the library in use. */
#define MPIX_SWITCHYARD_VERSION_MAJOR 0
#define MPIX_SWITCHYARD_VERSION_MINOR 2
#define MPIX_SWITCHYARD_VERSION_PATCH 0
#define MPIX_SWITCHYARD_VERSION \
    (MPIX_SWITCHYARD_VERSION_MAJOR * 10000 + MPIX_SWITCHYARD_VERSION_MINOR * 100 + MPIX_SWITCHYARD_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the Switchyard that this process has loaded. May be called at any time, before MPI_Init and after
 * MPI_Finalize too. Returns MPI_SUCCESS, or MPI_ERR_ARG for a null pointer. A program that wants to know whether
 * Switchyard is there at all, without linking with it, asks dlsym(RTLD_DEFAULT, "MPIX_Switchyard_version"). */
int MPIX_Switchyard_version(int* major, int* minor, int* patch);

/* Whether MPI calls take device pointers: 1 with Switchyard, when it is in force and the process has a CUDA driver;
 * what the MPI beneath says otherwise. To be asked after MPI_Init. Open MPI declares the same function in <mpi-ext.h>.
 */
int MPIX_Query_cuda_support(void);

/* Which device suits this process: the ordinal for cudaSetDevice, chosen for all processes of `comm` on a node together
 * by their cores, the devices that each sees, and the distances between them; MPI_UNDEFINED for a process that sees
 * none. Collective over `comm`, an intracommunicator. See MPIX_Device_suggest(3). */
int MPIX_Device_suggest(MPI_Comm comm, int* device);

/* The same for a process that uses several devices: all that are its part when those of the node are divided, in the
 * order of a ring in which neighbours are near, the one that suits it best first. At most `max_devices` are stored;
 * *ndevices says how many there are. See MPIX_Device_suggest(3). */
int MPIX_Device_suggest_multi(MPI_Comm comm, int max_devices, int devices[], int* ndevices);

/* Which of these devices is nearest to a buffer in host memory, the first of those that are equally near; with no list,
 * of all that the process sees. Local. See MPIX_Device_suggest(3). */
int MPIX_Device_near(const void* buffer, int ndevices, const int devices[], int* device);

/* A communicator for the group of this name: one that the program has declared, one of the file in SWITCHYARD_GROUPS,
 * or a process set of the launcher. Collective over the group's members alone, with the ranks in the group's order; a
 * process that is in no group of this name gets MPI_COMM_NULL. To be freed by MPI_Comm_free. See
 * MPIX_Comm_from_name(3). */
int MPIX_Comm_from_name(const char* name, MPI_Comm* comm);

/* Gives a group of processes of MPI_COMM_WORLD a name, in this process. Local. The group may be freed afterwards. */
int MPIX_Group_declare(const char* name, MPI_Group group);

/* Messages whose size the receiver does not know: a few bytes that describe it (metadata, in host or device memory),
 * and a payload of any size, in host or device memory on either end. The receiver's own function gives the memory for
 * the payload when the message has come, and is told where the sender's was and what the metadata say; NULL is a
 * refusal, an error of class MPI_ERR_NO_MEM that harms no other process. See MPIX_Send_message(3). */
#define MPIX_MESSAGE_METADATA_MAX 2048 /* bytes */

#define MPIX_MESSAGE_HOST 0
#define MPIX_MESSAGE_DEVICE 1
#define MPIX_MESSAGE_MANAGED 2

typedef void* MPIX_Message_allocate_function(MPI_Count bytes, int where, const void* metadata, int metadata_bytes,
                                             void* extra_state);

/* Blocks as MPI_Send and MPI_Recv do. What the one sends the other receives, and nothing else does. */
int MPIX_Send_message(const void* metadata, int metadata_bytes, const void* payload, MPI_Count bytes, int dest, int tag,
                      MPI_Comm comm);
int MPIX_Recv_message(void* metadata, int max_metadata, int* metadata_bytes, MPIX_Message_allocate_function* allocate,
                      void* extra_state, void** payload, MPI_Count* bytes, int source, int tag, MPI_Comm comm,
                      MPI_Status* status);

/* Collective. On the root *metadata_bytes, *payload and *bytes say what it broadcasts, elsewhere what has come. */
int MPIX_Bcast_message(void* metadata, int max_metadata, int* metadata_bytes, MPIX_Message_allocate_function* allocate,
                       void* extra_state, void** payload, MPI_Count* bytes, int root, MPI_Comm comm);

/* Several buffers of a process: MPI's calls with one buffer for each of its devices, or any others. A place is one
 * buffer of one process; places are numbered by rank, then by index, and a process may have none. Every collective is
 * MPI's on all places of an intracommunicator: a root is a place, MPIX_Allgather_multi and MPIX_Alltoall_multi have a
 * block for each place. `sendbufs` may be MPI_IN_PLACE. See MPIX_Allreduce_multi(3).
 *
 * A message is all of its process's buffers one after the other; the receiver may have another number of them, or make
 * a plain MPI_Recv. See MPIX_Send_multi(3). */
int MPIX_Bcast_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Reduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count, MPI_Datatype datatype,
                      MPI_Op op, int root, MPI_Comm comm);
int MPIX_Allreduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Reduce_scatter_block_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int recvcount,
                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Allgather_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                         MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                        MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Send_multi(const void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int dest, int tag,
                    MPI_Comm comm);
int MPIX_Recv_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int source, int tag,
                    MPI_Comm comm, MPI_Status* status);

int MPIX_Ibcast_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
                      MPI_Request* request);
int MPIX_Ireduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count,
                       MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm, MPI_Request* request);
int MPIX_Iallreduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count,
                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request);
int MPIX_Ireduce_scatter_block_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int recvcount,
                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request);
int MPIX_Iallgather_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                          MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                          MPI_Request* request);
int MPIX_Ialltoall_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                         MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                         MPI_Request* request);
int MPIX_Isend_multi(const void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int dest, int tag,
                     MPI_Comm comm, MPI_Request* request);
int MPIX_Irecv_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int source, int tag,
                     MPI_Comm comm, MPI_Request* request);

/* Floating-point numbers of 16 and 8 bits, in host and device memory: IEEE's half, bfloat16, and the two 8-bit formats
 * of the OCP, e4m3 without infinities. They have MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX and MPIX_AVG. The handles are
 * there from MPI_Init (or MPI_Session_init) to MPI_Finalize, as a predefined type's are, and are not the program's to
 * free; they are no constants. Each is MPI_DATATYPE_NULL before and after. See MPIX_FLOAT16(3). */
#define MPIX_FLOAT16 MPIX_Type_float16()
#define MPIX_BFLOAT16 MPIX_Type_bfloat16()
#define MPIX_FLOAT8_E4M3 MPIX_Type_float8_e4m3()
#define MPIX_FLOAT8_E5M2 MPIX_Type_float8_e5m2()

MPI_Datatype MPIX_Type_float16(void);
MPI_Datatype MPIX_Type_bfloat16(void);
MPI_Datatype MPIX_Type_float8_e4m3(void);
MPI_Datatype MPIX_Type_float8_e5m2(void);

/* The operator of reductions that gives the average: the sum, divided by the number of processes that contribute. On
 * all integers, floating-point and complex numbers, those above included, in all forms of MPI_Reduce, MPI_Allreduce and
 * MPI_Reduce_scatter(_block). See MPIX_AVG(3). */
#define MPIX_AVG MPIX_Op_avg()

MPI_Op MPIX_Op_avg(void);

/* Communication in the order of a CUDA stream, with the names and the meaning that MPICH gave it: the host does not
 * wait. A stream object is made of an info whose "type" is "cudaStream_t" and whose "value" is set by
 * MPIX_Info_set_hex(info, "value", &stream, sizeof stream); a communicator with the streams of its ranks by
 * MPIX_Stream_comm_create; each _enqueue call then stands in the stream of the calling rank. See MPIX_Stream_create(3),
 * MPIX_Send_enqueue(3) and MPIX_Allreduce_enqueue(3). */
#ifndef MPIX_STREAM_NULL
typedef struct mpix_stream* MPIX_Stream;
#define MPIX_STREAM_NULL ((MPIX_Stream)0)
#endif

int MPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size);
int MPIX_Stream_create(MPI_Info info, MPIX_Stream* stream);
int MPIX_Stream_free(MPIX_Stream* stream);
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm);
int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream);
int MPIX_Stream_progress(MPIX_Stream stream);

int MPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int MPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      MPI_Status* status);
int MPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       MPI_Request* request);
int MPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Request* request);
int MPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status);
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses);
int MPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                           MPI_Comm comm);

/* Of Switchyard's own, in the same way. */
int MPIX_Barrier_enqueue(MPI_Comm comm);
int MPIX_Bcast_enqueue(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Reduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
                        MPI_Comm comm);
int MPIX_Allgather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                           MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                          MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Gather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                        MPI_Datatype recvtype, int root, MPI_Comm comm);
int MPIX_Scatter_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                         MPI_Datatype recvtype, int root, MPI_Comm comm);
int MPIX_Reduce_scatter_block_enqueue(const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype,
                                      MPI_Op op, MPI_Comm comm);
int MPIX_Scan_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Exscan_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif
