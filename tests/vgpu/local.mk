# Tests of the virtual GPUs.
