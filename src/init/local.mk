# What happens at MPI_Init and MPI_Finalize.
libswy_la_SOURCES += \
    src/init/lifecycle.cpp src/init/lifecycle.hpp \
    src/init/profilers.cpp src/init/profilers.hpp \
    src/init/environment_check.cpp src/init/environment_check.hpp
