// The kernels and device variables that nvcc-compiled code registers when it is loaded, by host address and by
// device name. kernel.cpp, function.cpp, symbol.cpp and context.cpp use it.
#pragma once

#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

struct Binary;

// The driver's function for a host stub's address or for a handle that cudaGetKernel gave.
// cudaErrorInvalidDeviceFunction where nothing of that kind is registered or it has neither a twin nor device
// code. `owner` is null for a handle.
cudaError_t find_kernel(const void* stub, CUfunction& function, Binary*& owner);

// Sets a binary's variables up on a device, as loading its module into the device's context does. A twin library may
// define `extern "C" void vgpu_variable_<name>(int device, void* address, size_t bytes)`: it is called once per device
// with the address at which a twin reaches the variable, to put in its initial value and to keep the address. Without
// it the variable has the initial value that the binary's PTX gives it, or zeros where the binary has no PTX.
cudaError_t load_variables(Binary& binary, int device);

struct VariableLocation {
    CUdeviceptr address = 0;
    size_t bytes = 0;
};
// Returns a variable's address on this thread's device. Needs a context. cudaErrorInvalidSymbol for an address that is
// no registered variable.
cudaError_t find_variable(const void* symbol, VariableLocation& location);

// Discards the variables of a device that was reset; they are made anew at their next use.
void forget_device(int device);

}  // namespace vgpu::cudart
