/* mpi_memory_alloc_kinds (MPI 4.1 section 12.4.3): what a program may pass to calls on a communicator, window or file.
   With GPUs, device memory; without, nothing but what MPI itself says. What a program sets for this key, or asserts,
   does not change what is supported.

   launch: -n 2 -- host
   launch: -n 2 -x SWITCHYARD_REPORT=1 -- host
   launch: -n 2 --gpus 2 -- device
   launch: -n 2 --gpus 2 -x SWITCHYARD_REPORT=1 -- device
   launch: -n 2 --gpus 2 -x SWITCHYARD=0 -- host
   launch: -n 2 --gpus 2 --plain -- host */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failures;
static int device; /* device memory is expected to be known of */

static const char* const kAll = "mpi,system,cuda,cuda:host,cuda:device,cuda:managed";

static void read_value(MPI_Info* info, char* value) {
    int found = 0;
    MPI_Info_get(*info, "mpi_memory_alloc_kinds", MPI_MAX_INFO_VAL, value, &found);
    if (!found)
        strcpy(value, "nothing");
    MPI_Info_free(info);
}

static void compare(const char* what, MPI_Info* told, MPI_Info* beneath, const char* with_devices) {
    char value[MPI_MAX_INFO_VAL + 1], expected[MPI_MAX_INFO_VAL + 1];
    read_value(told, value);
    read_value(beneath, expected);
    if (device)
        strcpy(expected, with_devices);
    if (strcmp(value, expected) != 0) {
        fprintf(stderr, "%s: %s, not %s\n", what, value, expected);
        failures++;
    }
}

/* Compares the program's call with Open MPI's own, which goes past Switchyard. */
#define CHECK(what, type, object, with_devices)                                                        \
    do {                                                                                               \
        MPI_Info told, beneath;                                                                        \
        int (*own)(type, MPI_Info*);                                                                   \
        *(void**)&own = dlsym(dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD), "P" #type "_get_info"); \
        type##_get_info(object, &told);                                                                \
        own(object, &beneath);                                                                         \
        compare(what, &told, &beneath, with_devices);                                                  \
    } while (0)

/* An info object that asks for less and asserts less. */
static MPI_Info wishes(void) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_memory_alloc_kinds", "system");
    MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "system");
    return info;
}

static void communicators(void) {
    MPI_Comm made;
    MPI_Info asked = wishes();
    CHECK("MPI_COMM_WORLD", MPI_Comm, MPI_COMM_WORLD, kAll);
    CHECK("MPI_COMM_SELF", MPI_Comm, MPI_COMM_SELF, kAll);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    CHECK("MPI_Comm_dup", MPI_Comm, made, kAll);
    MPI_Comm_set_info(made, asked);
    CHECK("MPI_Comm_set_info", MPI_Comm, made, kAll);
    MPI_Comm_free(&made);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, asked, &made);
    CHECK("MPI_Comm_dup_with_info", MPI_Comm, made, kAll);
    MPI_Comm_free(&made);
    MPI_Info_free(&asked);
}

static void windows(void) {
    MPI_Info asked = wishes();
    MPI_Info all;
    MPI_Win win;
    void* base; /* MPI_Win_create is not to be had everywhere: Open MPI 4.1 needs process_vm_readv for it */
    MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void*)&base, &win);
    CHECK("MPI_Win_allocate", MPI_Win, win, kAll);
    MPI_Win_set_info(win, asked);
    CHECK("MPI_Win_set_info", MPI_Win, win, kAll);
    MPI_Win_free(&win);
    /* The key does not affect the kind of memory that MPI allocates (MPI 4.1 section 12.4.3): the host stores to it. */
    MPI_Comm_get_info(MPI_COMM_WORLD, &all);
    for (int i = 0; i < 2; ++i) {
        MPI_Win_allocate(sizeof(int), 1, all, MPI_COMM_WORLD, (void*)&base, &win);
        *(int*)base = i;
        MPI_Win_free(&win);
        MPI_Info_set(all, "mpi_memory_alloc_kinds", "cuda:device");
    }
    MPI_Info_free(&all);
    MPI_Info_free(&asked);
}

static void files(void) {
    MPI_Info asked = wishes();
    MPI_File file;
    const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    char name[64];
    snprintf(name, sizeof name, "/tmp/memory_kinds.%ld", (long)getpid());
    MPI_File_open(MPI_COMM_SELF, name, mode, asked, &file);
    CHECK("MPI_File_open", MPI_File, file, kAll);
    MPI_File_close(&file);
    MPI_Info_free(&asked);
}

#ifdef MPI_SESSION_NULL
static void sessions(void) {
    MPI_Session session;
    MPI_Info asked = wishes();
    MPI_Session_init(asked, MPI_ERRORS_ARE_FATAL, &session);
    CHECK("MPI_Session_init", MPI_Session, session, kAll);
    MPI_Session_finalize(&session);
    MPI_Info_free(&asked);
}
#endif

int main(int argc, char** argv) {
    device = argc > 1 && strcmp(argv[1], "device") == 0;
    MPI_Init(&argc, &argv);
    communicators();
    windows();
    files();
#ifdef MPI_SESSION_NULL
    sessions();
#endif
    MPI_Finalize();
    return failures != 0;
}
