/* MPI's tool information interface (MPI 3.1 section 14.3): Switchyard's variables and category are there beside Open
   MPI's, which stay as they are, and count what arithmetic says.

   launch: -n 2 -x SWITCHYARD_P2P_COMM=pair -- host
   launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -- device
   launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_REPORT=1 -- device
   launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_STATUS=no -- device */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_memory.h"

enum { COUNT = 1 << 18, BYTES = COUNT * 4, TEXT = 1024 };

static int failures;

#define EXPECT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            failures++;                                                     \
        }                                                                   \
    } while (0)

/* Open MPI's own function, past Switchyard. */
static void* own(const char* name) {
    return dlsym(dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD), name);
}

typedef int Number(int*);
typedef int PvarInfo(int, char*, int*, int*, int*, MPI_Datatype*, MPI_T_enum*, char*, int*, int*, int*, int*, int*);
typedef int CvarInfo(int, char*, int*, int*, MPI_Datatype*, MPI_T_enum*, char*, int*, int*, int*);
typedef int CategoryInfo(int, char*, int*, char*, int*, int*, int*, int*);
typedef int Members(int, int, int[]);

static int number(Number* get) {
    int found = -1;
    return get(&found) == MPI_SUCCESS ? found : -1;
}

/* The name of a variable or category; "" where there is none of this index. */
static const char* pvar_name(PvarInfo* info, int index) {
    static char name[2][TEXT];
    static int turn;
    char* to = name[turn = !turn];
    int length = TEXT, verbosity, its_class, bind, readonly, continuous, atomic;
    MPI_Datatype type;
    MPI_T_enum items;
    to[0] = '\0';
    info(index, to, &length, &verbosity, &its_class, &type, &items, NULL, NULL, &bind, &readonly, &continuous, &atomic);
    return to;
}

static const char* cvar_name(CvarInfo* info, int index) {
    static char name[2][TEXT];
    static int turn;
    char* to = name[turn = !turn];
    int length = TEXT, verbosity, bind, scope;
    MPI_Datatype type;
    MPI_T_enum items;
    to[0] = '\0';
    info(index, to, &length, &verbosity, &type, &items, NULL, NULL, &bind, &scope);
    return to;
}

/* All of Open MPI's are there in their order, and ours are those between. Returns how many are ours. */
static int compare_lists(void) {
    PvarInfo* own_pvar = (PvarInfo*)own("PMPI_T_pvar_get_info");
    CvarInfo* own_cvar = (CvarInfo*)own("PMPI_T_cvar_get_info");
    int i, ours = 0, theirs = 0, all = number(MPI_T_pvar_get_num);
    for (i = 0; i < all; i++) {
        if (strncmp(pvar_name(MPI_T_pvar_get_info, i), "switchyard_", 11) == 0)
            ours++;
        else
            EXPECT(strcmp(pvar_name(MPI_T_pvar_get_info, i), pvar_name(own_pvar, theirs++)) == 0);
    }
    EXPECT(theirs == number((Number*)own("PMPI_T_pvar_get_num")));
    EXPECT(ours > 100);
    all = number(MPI_T_cvar_get_num);
    for (i = 0, theirs = 0; i < all; i++)
        if (strncmp(cvar_name(MPI_T_cvar_get_info, i), "SWITCHYARD", 10) != 0)
            EXPECT(strcmp(cvar_name(MPI_T_cvar_get_info, i), cvar_name(own_cvar, theirs++)) == 0);
    EXPECT(theirs == number((Number*)own("PMPI_T_cvar_get_num")));
    EXPECT(all - theirs > 20);
    return ours;
}

static int category_numbers(CategoryInfo* info, int index, char* name, int* cvars, int* pvars) {
    int length = TEXT, text = 0, categories;
    return info(index, name, &length, NULL, &text, cvars, pvars, &categories);
}

/* Every category names the same variables as Open MPI's own does; ours names all of ours. */
static void compare_categories(int our_pvars) {
    CategoryInfo* own_info = (CategoryInfo*)own("PMPI_T_category_get_info");
    Members *own_pvars = (Members*)own("PMPI_T_category_get_pvars"),
            *own_cvars = (Members*)own("PMPI_T_category_get_cvars");
    int i, k, theirs = 0, index = -1, all = number(MPI_T_category_get_num);
    EXPECT(all == number((Number*)own("PMPI_T_category_get_num")) + 1);
    EXPECT(MPI_T_category_get_index("switchyard", &index) == MPI_SUCCESS);
    for (i = 0; i < all; i++) {
        char name[TEXT] = "", expected[TEXT] = "";
        int code, cvars, pvars, own_cvar_count, own_pvar_count, *list, *beneath;
        cvars = pvars = own_cvar_count = own_pvar_count = 0; /* some of Open MPI's are no more: an error */
        code = category_numbers(MPI_T_category_get_info, i, name, &cvars, &pvars);
        if (i == index) {
            EXPECT(code == MPI_SUCCESS && strcmp(name, "switchyard") == 0 && pvars == our_pvars);
            list = malloc(pvars * sizeof(int));
            EXPECT(MPI_T_category_get_pvars(i, pvars, list) == MPI_SUCCESS);
            for (k = 0; k < pvars; k++)
                EXPECT(strncmp(pvar_name(MPI_T_pvar_get_info, list[k]), "switchyard_", 11) == 0);
            free(list);
            continue;
        }
        EXPECT(category_numbers(own_info, theirs, expected, &own_cvar_count, &own_pvar_count) == code);
        EXPECT(strcmp(name, expected) == 0 && cvars == own_cvar_count && pvars == own_pvar_count);
        list = malloc((cvars + pvars + 1) * sizeof(int));
        beneath = malloc((cvars + pvars + 1) * sizeof(int));
        if (pvars > 0 && MPI_T_category_get_pvars(i, pvars, list) == MPI_SUCCESS &&
            own_pvars(theirs, pvars, beneath) == MPI_SUCCESS)
            for (k = 0; k < pvars; k++)
                EXPECT(strcmp(pvar_name(MPI_T_pvar_get_info, list[k]),
                              pvar_name((PvarInfo*)own("PMPI_T_pvar_get_info"), beneath[k])) == 0);
        if (cvars > 0 && MPI_T_category_get_cvars(i, cvars, list) == MPI_SUCCESS &&
            own_cvars(theirs, cvars, beneath) == MPI_SUCCESS)
            for (k = 0; k < cvars; k++)
                EXPECT(strcmp(cvar_name(MPI_T_cvar_get_info, list[k]),
                              cvar_name((CvarInfo*)own("PMPI_T_cvar_get_info"), beneath[k])) == 0);
        free(list);
        free(beneath);
        theirs++;
    }
}

static MPI_T_pvar_handle allocate(MPI_T_pvar_session session, const char* name, int its_class) {
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int index = -1, count = 0;
    EXPECT(MPI_T_pvar_get_index(name, its_class, &index) == MPI_SUCCESS);
    EXPECT(strcmp(pvar_name(MPI_T_pvar_get_info, index), name) == 0);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS);
    EXPECT(count == 1 && handle != MPI_T_PVAR_HANDLE_NULL);
    return handle;
}

static unsigned long long value(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    unsigned long long read = 12345;
    EXPECT(MPI_T_pvar_read(session, handle, &read) == MPI_SUCCESS);
    return read;
}

static void sum(float* buffer, int count) {
    MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* `on` is 1 where the buffer is device memory: calls on host memory are not counted. */
static void count_calls(float* buffer, unsigned on) {
    MPI_T_pvar_session session, other;
    MPI_T_pvar_handle calls, bytes, seconds, of_allreduce, small, elsewhere, foreign;
    unsigned long long written = 40;
    double time = -1;
    int index, count;
    EXPECT(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_session_create(&other) == MPI_SUCCESS);
    calls = allocate(session, "switchyard_nccl_calls", MPI_T_PVAR_CLASS_COUNTER);
    bytes = allocate(session, "switchyard_nccl_bytes", MPI_T_PVAR_CLASS_AGGREGATE);
    seconds = allocate(session, "switchyard_nccl_time", MPI_T_PVAR_CLASS_TIMER);
    of_allreduce = allocate(session, "switchyard_MPI_Allreduce_nccl_bytes", MPI_T_PVAR_CLASS_AGGREGATE);
    small = allocate(session, "switchyard_reason_small_calls", MPI_T_PVAR_CLASS_COUNTER);
    elsewhere = allocate(other, "switchyard_nccl_calls", MPI_T_PVAR_CLASS_COUNTER);
    EXPECT(MPI_T_pvar_get_index("switchyard_nccl_calls", MPI_T_PVAR_CLASS_TIMER, &index) == MPI_T_ERR_INVALID_NAME);
    EXPECT(MPI_T_pvar_get_index("switchyard_nothing", MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS);

    sum(buffer, COUNT); /* nothing has been started */
    EXPECT(value(session, calls) == 0);
    EXPECT(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    sum(buffer, COUNT);
    sum(buffer, COUNT);
    sum(buffer, 4);
    EXPECT(value(session, calls) == 2 * on);
    EXPECT(value(session, bytes) == 2ULL * BYTES * on);
    EXPECT(value(session, of_allreduce) == 2ULL * BYTES * on);
    EXPECT(value(session, small) == on);
    EXPECT(MPI_T_pvar_read(session, seconds, &time) == MPI_SUCCESS && (on ? time > 0 : time == 0) && time < 60);
    EXPECT(value(other, elsewhere) == 0);

    EXPECT(MPI_T_pvar_stop(session, calls) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_start(other, elsewhere) == MPI_SUCCESS);
    sum(buffer, COUNT);
    EXPECT(value(session, calls) == 2 * on);
    EXPECT(value(session, bytes) == 3ULL * BYTES * on);
    EXPECT(value(other, elsewhere) == on);
    EXPECT(MPI_T_pvar_start(session, calls) == MPI_SUCCESS);
    sum(buffer, COUNT);
    EXPECT(value(session, calls) == 3 * on);
    EXPECT(MPI_T_pvar_reset(session, calls) == MPI_SUCCESS);
    EXPECT(value(session, calls) == 0);
    EXPECT(MPI_T_pvar_write(session, calls, &written) == MPI_SUCCESS);
    sum(buffer, COUNT);
    EXPECT(MPI_T_pvar_readreset(session, calls, &written) == MPI_SUCCESS && written == 40 + on);
    EXPECT(value(session, calls) == 0);

    EXPECT(MPI_T_pvar_start(other, calls) == MPI_T_ERR_INVALID_HANDLE);
    foreign = calls;
    EXPECT(MPI_T_pvar_handle_free(session, &calls) == MPI_SUCCESS && calls == MPI_T_PVAR_HANDLE_NULL);
    EXPECT(foreign != MPI_T_PVAR_HANDLE_NULL);
    EXPECT(MPI_T_pvar_get_index("switchyard_nccl_calls", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_handle_alloc(MPI_T_PVAR_SESSION_NULL, index, NULL, &foreign, &count) ==
           MPI_T_ERR_INVALID_SESSION);
    EXPECT(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_session_free(&other) == MPI_SUCCESS);
}

static void read_setting(void) {
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    char *text, name[TEXT], short_name[5];
    int index = -1, count = 0, scope = -1, length = 5, verbosity, bind;
    MPI_T_enum items;
    EXPECT(MPI_T_cvar_get_index("SWITCHYARD_P2P_COMM", &index) == MPI_SUCCESS);
    EXPECT(MPI_T_cvar_get_info(index, short_name, &length, &verbosity, &type, &items, NULL, NULL, &bind, &scope) ==
           MPI_SUCCESS);
    EXPECT(strcmp(short_name, "SWIT") == 0 && length == (int)sizeof "SWITCHYARD_P2P_COMM");
    EXPECT(type == MPI_CHAR && scope == MPI_T_SCOPE_READONLY && bind == MPI_T_BIND_NO_OBJECT);
    EXPECT(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS && count > 0);
    text = malloc(count);
    EXPECT(MPI_T_cvar_read(handle, text) == MPI_SUCCESS && strcmp(text, "pair") == 0);
    EXPECT(MPI_T_cvar_write(handle, "auto") == MPI_T_ERR_CVAR_SET_NEVER);
    EXPECT(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL);
    free(text);

    /* One of Open MPI's own, by its name. */
    for (index = 0; cvar_name(MPI_T_cvar_get_info, index)[0] == '\0'; index++)
        ;
    strcpy(name, cvar_name(MPI_T_cvar_get_info, index));
    EXPECT(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
           strcmp(cvar_name(MPI_T_cvar_get_info, index), name) == 0);
    EXPECT(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS);
    EXPECT(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS);
}

/* One of Open MPI's performance variables, where its layer ob1 is used. */
static void read_theirs(void) {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    MPI_Comm comm = MPI_COMM_WORLD;
    unsigned lengths[64] = {99, 99};
    int index, count = 0;
    if (MPI_T_pvar_get_index("pml_ob1_unexpected_msgq_length", MPI_T_PVAR_CLASS_SIZE, &index) != MPI_SUCCESS)
        return;
    EXPECT(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, &comm, &handle, &count) == MPI_SUCCESS && count == 2);
    EXPECT(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_read(session, handle, lengths) == MPI_SUCCESS && lengths[0] < 99 && lengths[1] < 99);
    EXPECT(MPI_T_pvar_handle_free(session, &handle) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

int main(int argc, char** argv) {
    int provided, ours, device = argc > 1 && strcmp(argv[1], "device") == 0;
    float* buffer;
    EXPECT(MPI_T_pvar_get_num(&ours) == MPI_T_ERR_NOT_INITIALIZED);
    EXPECT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    ours = compare_lists(); /* before MPI_Init, when Open MPI has fewer */
    MPI_Init(&argc, &argv);
    EXPECT(compare_lists() == ours);
    compare_categories(ours);
    read_setting();
    read_theirs();
    buffer = device ? device_alloc(BYTES) : calloc(COUNT, sizeof(float));
    if (device) {
        void* zeros = calloc(COUNT, sizeof(float));
        device_copy(buffer, zeros, BYTES);
        free(zeros);
    }
    count_calls(buffer, device);
    if (device)
        device_free(buffer);
    else
        free(buffer);
    EXPECT(MPI_T_finalize() == MPI_SUCCESS); /* first: Open MPI 4.1.4 crashes in MPI_Finalize else */
    MPI_Finalize();
    return failures != 0;
}
