#include "device_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    int (*set_device)(int);
    int (*device_count)(int*);
    int (*alloc)(void**, size_t);
    int (*release)(void*);
    int (*copy)(void*, const void*, size_t, int);
} cuda;

static void check(int result, const char* what) {
    if (result == 0)
        return;
    fprintf(stderr, "device_memory: %s failed with CUDA error %d\n", what, result);
    exit(3);
}

static void* entry(void* library, const char* name) {
    void* found = dlsym(library, name);
    if (found == NULL)
        check(-1, name);
    return found;
}

static void load(void) {
    if (cuda.alloc != NULL)
        return;
    void* library = dlopen("libcudart.so.13", RTLD_NOW);
    if (library == NULL)
        library = dlopen("libcudart.so.12", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "device_memory: %s\n", dlerror());
        exit(3);
    }
    *(void**)&cuda.set_device = entry(library, "cudaSetDevice");
    *(void**)&cuda.device_count = entry(library, "cudaGetDeviceCount");
    *(void**)&cuda.release = entry(library, "cudaFree");
    *(void**)&cuda.copy = entry(library, "cudaMemcpy");
    *(void**)&cuda.alloc = entry(library, "cudaMalloc");
    const char* rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int devices = 0;
    check(cuda.device_count(&devices), "cudaGetDeviceCount");
    check(cuda.set_device((rank != NULL ? atoi(rank) : 0) % devices), "cudaSetDevice");
}

void* device_alloc(size_t bytes) {
    void* memory = NULL;
    load();
    check(cuda.alloc(&memory, bytes > 0 ? bytes : 1), "cudaMalloc");
    return memory;
}

void device_free(void* memory) {
    check(cuda.release(memory), "cudaFree");
}

void device_copy(void* to, const void* from, size_t bytes) {
    enum { kDefault = 4 }; /* cudaMemcpyDefault: the driver knows which side is which */
    check(cuda.copy(to, from, bytes, kDefault), "cudaMemcpy");
}
