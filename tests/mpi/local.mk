# MPI tests: programs that run under tests/launch.
