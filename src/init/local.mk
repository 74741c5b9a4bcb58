# What happens at MPI_Init and MPI_Finalize.
init_sources = \
    src/init/lifecycle.cpp src/init/lifecycle.hpp \
    src/init/profilers.cpp src/init/profilers.hpp \
    src/init/environment_check.cpp src/init/environment_check.hpp
