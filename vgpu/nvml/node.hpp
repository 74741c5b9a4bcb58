// What the functions of libnvidia-ml share: its state, the node's devices and their handles.
#pragma once

#include <cstddef>

#include "vgpu/nvml/nvml.h"
#include "vgpu/private.h"

namespace vgpu::nvml {

// nvmlInit and nvmlShutdown are counted. Returns false where a VGPU_* variable is not valid.
bool open();
bool close();  // false where nothing is open
bool is_open();

int device_count();
// The index of a handle, or -1. Handles hold for the life of the process.
int index_of(nvmlDevice_t device);
nvmlDevice_t handle_of(int index);
vgpu_node_device device_at(int index);

// NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT, or success and the device's index.
nvmlReturn_t check(nvmlDevice_t device, int& index);

// Copies `text` with its null byte into `length` bytes, or returns NVML_ERROR_INSUFFICIENT_SIZE.
nvmlReturn_t give(const char* text, char* to, unsigned int length);

// Writes what both lengths of nvmlPciInfo_t have; `whole` writes busId too, which older programs have no room for.
void give_address(const vgpu_node_device& from, nvmlPciInfo_t* to, bool whole);

}  // namespace vgpu::nvml
