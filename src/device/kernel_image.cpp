// The device code in the library, as two images that every driver since CUDA 11.0 can choose from:
// - Cubins for the GPUs that nvcc knew. A driver takes those of its own major version of CUDA and of older ones. Those
//   that CUDA 13 writes no driver of CUDA 12 loads. They are not compressed, since zstd, nvcc's default, is known to
//   drivers from CUDA 12.4 on only.
// - PTX for the oldest of these GPUs, which the driver compiles for whatever GPU it has. A driver refuses PTX whose
//   .version is newer than itself, so that line is lowered (src/device/local.mk).
// They are separate, since it is not documented that a driver which cannot read the cubins of a fat binary goes on to
// its PTX.
#include "config.h"
#include "device/kernels.hpp"

#ifdef SWY_HAVE_KERNELS
asm(R"(
    .pushsection .rodata
    .balign 64
    .global swy_kernel_cubins
    .hidden swy_kernel_cubins
swy_kernel_cubins:
    .incbin "src/datatype/kernels.fatbin"
    .balign 64
    .global swy_kernel_ptx
    .hidden swy_kernel_ptx
swy_kernel_ptx:
    .incbin "src/datatype/kernels.ptx"
    .byte 0
    .popsection
)");
extern "C" const unsigned char swy_kernel_cubins[], swy_kernel_ptx[];
#endif

namespace swy::device {

std::span<const KernelImage> kernel_images() {
#ifdef SWY_HAVE_KERNELS
    static const KernelImage kImages[] = {{"cubins", swy_kernel_cubins}, {"PTX", swy_kernel_ptx}};
    return kImages;
#else
    return {};
#endif
}

bool kernels_built() {
    return !kernel_images().empty();
}

std::string kernels_text() {
#ifdef SWY_HAVE_KERNELS
    return "for compute capability " SWY_KERNEL_TARGETS " and later";
#else
    return "none: built without nvcc; derived types are packed by copies";
#endif
}

}  // namespace swy::device
