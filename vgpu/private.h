/* The functions that the virtual GPUs' libcuda.so.1 exports for libcudart, libnccl, libnvidia-ml and libnvJitLink,
 * beyond the public driver API. Real drivers have none of these: programs and Switchyard itself never call them. */
#ifndef SWITCHYARD_VGPU_PRIVATE_H
#define SWITCHYARD_VGPU_PRIVATE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The address at which the simulator may touch [address, address + bytes): for device memory its second mapping, for
 * pinned, managed and registered host memory the address itself. NULL when the range is not wholly inside one live
 * allocation known to the driver. */
__attribute__((visibility("default"))) void* vgpu_alias(unsigned long long address, size_t bytes);

/* Returns the fault of VGPU_FAULTS for this call of `function` in this process (calls are counted per function and
 * process, from 1). `hang` means: the operation is accepted and never completes. `die` does not return: the process
 * ends by SIGKILL. With kVgpuFaultError `*error_name` is the name the user wrote, e.g. "ncclRemoteError" or
 * "CUDA_ERROR_OUT_OF_MEMORY"; the caller maps it. */
enum vgpu_fault_kind { kVgpuFaultNone = 0, kVgpuFaultError = 1, kVgpuFaultHang = 2 };
__attribute__((visibility("default"))) enum vgpu_fault_kind vgpu_fault(const char* function, const char** error_name);

/* One line into this process's operation log, when VGPU_LOG=PREFIX asks for one (file PREFIX.<pid>, one JSON object a
 * line:
 * {"t": nanoseconds, "op": "ncclAllReduce", "phase": "launch|start|end", ...}). `fields` is the inside of a JSON
 * object, without braces, or NULL. */
__attribute__((visibility("default"))) void vgpu_log(const char* operation, const char* phase, const char* fields);

/* A pseudo-random delay of up to a few hundred microseconds when VGPU_JITTER=seed is set; nothing otherwise. For worker
 * threads. */
__attribute__((visibility("default"))) void vgpu_jitter(void);

/* The kernel of this (mangled) name, for code whose modules the driver never sees: nvcc's host stubs know a kernel by
 * name alone. A CUfunction, the same for every call and context and valid for the life of the process, that the
 * driver's launch and function-attribute calls take. NULL when no library named by VGPU_KERNELS has a twin of that
 * name. */
__attribute__((visibility("default"))) void* vgpu_function(const char* name);

/* The names of the machines that VGPU_MACHINE may name, separated by ", ". */
__attribute__((visibility("default"))) const char* vgpu_machines(void);

/* NCCL's version on the machine that VGPU_MACHINE names, as ncclGetVersion's code; 0 where it names none. */
__attribute__((visibility("default"))) int vgpu_machine_nccl(void);

/* A GPU of the node, which the process need not see: CUDA_VISIBLE_DEVICES changes nothing here. */
struct vgpu_node_device {
    unsigned domain, bus, device; /* of its PCI address */
    char uuid[41];                /* "GPU-1b2c..." */
    size_t memory, used;          /* bytes, of all processes */
};

/* The number of GPUs of the node, in PCI order from 0; -1 where a VGPU_* variable is not valid, which is said once. May
 * be called without cuInit, and in a child of fork. */
__attribute__((visibility("default"))) int vgpu_node_device_count(void);

/* One of them. Returns 0, or -1 where there is none of this index. */
__attribute__((visibility("default"))) int vgpu_node_device_get(int index, struct vgpu_node_device* device);

/* What the node's GPUs have in common. */
struct vgpu_node {
    int driver;       /* as cuDriverGetVersion gives it */
    int major, minor; /* compute capability */
    int nvlink;       /* 1: NVLink between the devices, through switches */
    int peers;        /* 1: one device reaches another's memory */
    const char* name; /* as cuDeviceGetName gives it */
};
__attribute__((visibility("default"))) struct vgpu_node vgpu_node_get(void);

/* Queues a kernel of libnccl's on a stream of the current context: `run` is called with `data` on the stream's thread.
 * Unlike a host function it leaves its hardware queue when it starts. Returns a CUresult. */
__attribute__((visibility("default"))) int vgpu_launch_kernel(void* stream, void (*run)(void*), void* data);

/* Makes a kernel of libnccl's a node of the graph into which a stream of the current context is captured. In each
 * launch of the graph `prepare` is called with `data`, in the order of the graph's nodes, and when the node's turn
 * comes `run` with what it has returned. `release` is called with `data` when the graph and what was made of it are
 * gone, or at once where this fails. Returns a CUresult. */
__attribute__((visibility("default"))) int vgpu_capture_kernel(void* stream, void* (*prepare)(void*),
                                                               void (*run)(void*), void (*release)(void*), void* data);

/* The address of a symbol in the libraries named by VGPU_KERNELS, or NULL: for what a twin library may define beside
 * kernels. */
__attribute__((visibility("default"))) void* vgpu_kernel_symbol(const char* symbol);

/* The driver's linker of device code, which needs no context here: for libnvJitLink. `capability` is 90 for compute
 * capability 9.0, `type` a CUjitInputType, or negative: whichever the bytes are. The functions that add and complete
 * return a CUresult, of which the log says more. The log and the cubin live as long as the linker. */
struct vgpu_linker;
__attribute__((visibility("default"))) struct vgpu_linker* vgpu_linker_new(int capability);
__attribute__((visibility("default"))) void vgpu_linker_delete(struct vgpu_linker* linker);
__attribute__((visibility("default"))) int vgpu_linker_add(struct vgpu_linker* linker, int type, const void* data,
                                                           size_t bytes, const char* name);
__attribute__((visibility("default"))) int vgpu_linker_complete(struct vgpu_linker* linker);
__attribute__((visibility("default"))) const char* vgpu_linker_log(const struct vgpu_linker* linker);
__attribute__((visibility("default"))) const void* vgpu_linker_cubin(const struct vgpu_linker* linker, size_t* bytes);

#ifdef __cplusplus
}
#endif
#endif
