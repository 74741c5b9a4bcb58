// The other half of engine_main.cu.
__device__ int offset = 3;
__device__ int twice_and(int value) {
    return 2 * value;
}
