// The device code in the library: a fat binary, as written by nvcc.
#include "config.h"
#include "device/kernels.hpp"

#ifdef SWY_HAVE_KERNELS
asm(R"(
    .pushsection .rodata
    .balign 64
    .global swy_kernel_image
    .hidden swy_kernel_image
swy_kernel_image:
    .incbin "src/datatype/kernels.fatbin"
    .byte 0
    .popsection
)");
extern "C" const unsigned char swy_kernel_image[];
#endif

namespace swy::device {

const void* kernel_image() {
#ifdef SWY_HAVE_KERNELS
    return swy_kernel_image;
#else
    return nullptr;
#endif
}

bool kernels_built() {
    return kernel_image() != nullptr;
}

std::string kernels_text() {
#ifdef SWY_HAVE_KERNELS
    return "for compute capability " SWY_KERNEL_TARGETS " and later";
#else
    return "none: built without nvcc; derived types are packed by copies";
#endif
}

}  // namespace swy::device
