/* A program that loads NVML and the driver, as monitors do, and compares what they say: "client COUNT LINKS PEERS MAJOR
 * MINOR DRIVER" ends with 0 where the node's devices are these. It declares of NVML what it uses. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvmlDevice_st* nvmlDevice_t;
typedef struct {
    char id_legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char id[32];
} pci_t;
typedef struct {
    unsigned long long total, free, used;
} memory_t;
typedef struct {
    unsigned id, scope;
    long long time, latency;
    unsigned type, result;
    union {
        unsigned value;
        double other;
    } value;
} field_t;

enum { kSuccess = 0, kUninitialized = 1, kInvalid = 2, kNotSupported = 3, kNotFound = 6, kInsufficient = 7 };

static int wrong = 0;
#define EXPECT(condition)                                            \
    do {                                                             \
        if (!(condition)) {                                          \
            printf("FAILED at line %d: %s\n", __LINE__, #condition); \
            wrong = 1;                                               \
        }                                                            \
    } while (0)

static void *nvml, *cuda;

static void* find(void* library, const char* name) {
    void* const function = dlsym(library, name);
    if (function == NULL) {
        printf("FAILED: no %s\n", name);
        exit(1);
    }
    return function;
}
#define NVML(name, ...) ((int (*)(__VA_ARGS__))find(nvml, #name))
#define CUDA(name, type) ((type)find(cuda, #name))

static nvmlDevice_t device_at(int index) {
    nvmlDevice_t device = NULL;
    EXPECT(NVML(nvmlDeviceGetHandleByIndex_v2, unsigned, nvmlDevice_t*)((unsigned)index, &device) == kSuccess);
    return device;
}

static void check_identity(int index) {
    nvmlDevice_t device = device_at(index), same = NULL;
    unsigned number = 99;
    char uuid[96], text[8];
    pci_t pci, old;
    int major = 0, minor = 0;
    EXPECT(NVML(nvmlDeviceGetIndex, nvmlDevice_t, unsigned*)(device, &number) == kSuccess && (int)number == index);
    EXPECT(NVML(nvmlDeviceGetUUID, nvmlDevice_t, char*, unsigned)(device, uuid, sizeof uuid) == kSuccess);
    EXPECT(NVML(nvmlDeviceGetUUID, nvmlDevice_t, char*, unsigned)(device, text, sizeof text) == kInsufficient);
    EXPECT(NVML(nvmlDeviceGetHandleByUUID, const char*, nvmlDevice_t*)(uuid, &same) == kSuccess && same == device);
    EXPECT(NVML(nvmlDeviceGetPciInfo_v3, nvmlDevice_t, pci_t*)(device, &pci) == kSuccess);
    EXPECT((pci.pci_device & 0xffff) == 0x10de && strlen(pci.id) == 16 && strlen(pci.id_legacy) == 12);
    same = NULL;
    EXPECT(NVML(nvmlDeviceGetHandleByPciBusId_v2, const char*, nvmlDevice_t*)(pci.id, &same) == 0 && same == device);
    same = NULL;
    EXPECT(NVML(nvmlDeviceGetHandleByPciBusId, const char*, nvmlDevice_t*)(pci.id_legacy, &same) == 0);
    EXPECT(same == device);
    /* Older programs have no room for the last field. */
    memset(&old, 0x5a, sizeof old);
    EXPECT(NVML(nvmlDeviceGetPciInfo, nvmlDevice_t, pci_t*)(device, &old) == kSuccess);
    EXPECT(old.bus == pci.bus && old.id[0] == 0x5a && old.id[31] == 0x5a);
    EXPECT(NVML(nvmlDeviceGetCudaComputeCapability, nvmlDevice_t, int*, int*)(device, &major, &minor) == kSuccess);
    printf("device %d: %s %s, %d.%d\n", index, pci.id, uuid, major, minor);
}

static void check_links(int index, unsigned links) {
    nvmlDevice_t device = device_at(index);
    for (unsigned link = 0; link < 19; ++link) {
        const int expected = link < links ? kSuccess : link < 18 ? kNotSupported : kInvalid;
        unsigned active = 0, able = 0, type = 99;
        pci_t remote;
        EXPECT(NVML(nvmlDeviceGetNvLinkState, nvmlDevice_t, unsigned, unsigned*)(device, link, &active) == expected);
        EXPECT(NVML(nvmlDeviceGetNvLinkCapability, nvmlDevice_t, unsigned, int, unsigned*)(device, link, 0, &able) ==
               expected);
        EXPECT(NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDevice_t, unsigned, pci_t*)(device, link, &remote) ==
               expected);
        EXPECT(NVML(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDevice_t, unsigned, unsigned*)(device, link, &type) ==
               expected);
        EXPECT(expected != kSuccess || (active == 1 && able == 1 && type == 2));
    }
    field_t fields[2] = {{.id = 91}, {.id = 9999}};
    EXPECT(NVML(nvmlDeviceGetFieldValues, nvmlDevice_t, int, field_t*)(device, 2, fields) == kSuccess);
    EXPECT(fields[0].result == kSuccess && fields[0].type == 1 && fields[0].value.value == links);
    EXPECT(fields[1].result == kNotSupported);
}

static void check_peers(int count, int links, int peers) {
    int (*status)(nvmlDevice_t, nvmlDevice_t, int, unsigned*) =
        NVML(nvmlDeviceGetP2PStatus, nvmlDevice_t, nvmlDevice_t, int, unsigned*);
    for (int a = 0; a < count; ++a)
        for (int b = 0; b < count; ++b) {
            unsigned read = 99, nvlink = 99;
            EXPECT(status(device_at(a), device_at(b), 0, &read) == kSuccess);
            EXPECT(status(device_at(a), device_at(b), 2, &nvlink) == kSuccess);
            EXPECT(a == b || ((read == 0) == (peers != 0) && (nvlink == 0) == (links != 0)));
        }
}

/* What CUDA allocates is seen here, of the device that both mean: CUDA_VISIBLE_DEVICES renumbers CUDA's alone. */
static void check_memory(void) {
    const unsigned long long bytes = 5 << 20;
    char id[32];
    nvmlDevice_t device = NULL;
    memory_t before, after;
    CUdevice ordinal;
    CUcontext context;
    CUdeviceptr pointer = 0;
    size_t total = 0;
    EXPECT(CUDA(cuInit, CUresult(*)(unsigned))(0) == CUDA_SUCCESS);
    EXPECT(CUDA(cuDeviceGet, CUresult(*)(CUdevice*, int))(&ordinal, 0) == CUDA_SUCCESS);
    EXPECT(CUDA(cuDeviceGetPCIBusId, CUresult(*)(char*, int, CUdevice))(id, sizeof id, ordinal) == CUDA_SUCCESS);
    EXPECT(NVML(nvmlDeviceGetHandleByPciBusId_v2, const char*, nvmlDevice_t*)(id, &device) == kSuccess);
    EXPECT(NVML(nvmlDeviceGetMemoryInfo, nvmlDevice_t, memory_t*)(device, &before) == kSuccess);
    EXPECT(CUDA(cuDevicePrimaryCtxRetain, CUresult(*)(CUcontext*, CUdevice))(&context, ordinal) == CUDA_SUCCESS);
    EXPECT(CUDA(cuCtxSetCurrent, CUresult(*)(CUcontext))(context) == CUDA_SUCCESS);
    EXPECT(CUDA(cuMemAlloc_v2, CUresult(*)(CUdeviceptr*, size_t))(&pointer, bytes) == CUDA_SUCCESS);
    EXPECT(CUDA(cuDeviceTotalMem_v2, CUresult(*)(size_t*, CUdevice))(&total, ordinal) == CUDA_SUCCESS);
    EXPECT(NVML(nvmlDeviceGetMemoryInfo, nvmlDevice_t, memory_t*)(device, &after) == kSuccess);
    EXPECT(after.total == total && after.used + after.free == after.total);
    EXPECT(after.used == before.used + bytes);
    printf("CUDA's first device is %s\n", id);
}

int main(int count_of_arguments, char** arguments) {
    if (count_of_arguments != 7)
        return 2;
    const int devices = atoi(arguments[1]), links = atoi(arguments[2]), peers = atoi(arguments[3]);
    unsigned count = 99;
    int version = 0, major = 0, minor = 0;
    char driver[80] = "";
    nvmlDevice_t device = NULL;
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (nvml == NULL) {
        printf("FAILED: %s\n", dlerror());
        return 1;
    }
    EXPECT(NVML(nvmlDeviceGetCount_v2, unsigned*)(&count) == kUninitialized);
    EXPECT(NVML(nvmlInit_v2, void)() == kSuccess && NVML(nvmlInit, void)() == kSuccess);
    EXPECT(NVML(nvmlShutdown, void)() == kSuccess);
    EXPECT(NVML(nvmlDeviceGetCount_v2, unsigned*)(&count) == kSuccess && (int)count == devices);
    EXPECT(NVML(nvmlDeviceGetHandleByIndex_v2, unsigned, nvmlDevice_t*)(count, &device) == kInvalid);
    EXPECT(NVML(nvmlDeviceGetHandleByUUID, const char*, nvmlDevice_t*)("GPU-none", &device) == kNotFound);
    EXPECT(NVML(nvmlDeviceGetHandleByPciBusId_v2, const char*, nvmlDevice_t*)("00ab:cd:1e.0", &device) == kNotFound);
    EXPECT(NVML(nvmlDeviceGetName, nvmlDevice_t, char*, unsigned)((nvmlDevice_t)&count, driver, 80) == kInvalid);
    EXPECT(NVML(nvmlSystemGetDriverVersion, char*, unsigned)(driver, sizeof driver) == kSuccess);
    EXPECT(strncmp(driver, arguments[6], strlen(arguments[6])) == 0);
    for (int i = 0; i < devices; ++i) {
        check_identity(i);
        check_links(i, (unsigned)links);
        EXPECT(NVML(nvmlDeviceGetCudaComputeCapability, nvmlDevice_t, int*, int*)(device_at(i), &major, &minor) == 0);
        EXPECT(major == atoi(arguments[4]) && minor == atoi(arguments[5]));
    }
    check_peers(devices, links, peers);
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(NVML(nvmlSystemGetCudaDriverVersion_v2, int*)(&count_of_arguments) == kSuccess);
    EXPECT(CUDA(cuDriverGetVersion, CUresult(*)(int*))(&version) == CUDA_SUCCESS && version == count_of_arguments);
    check_memory();
    EXPECT(NVML(nvmlShutdown, void)() == kSuccess && NVML(nvmlShutdown, void)() == kUninitialized);
    return wrong;
}
