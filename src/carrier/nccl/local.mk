# Collectives over NCCL.
libswy_la_SOURCES += \
    src/carrier/nccl/collectives.cpp \
    src/carrier/nccl/collectives.hpp \
    src/carrier/nccl/communicator.cpp \
    src/carrier/nccl/communicator.hpp \
    src/carrier/nccl/library.cpp \
    src/carrier/nccl/library.hpp \
    src/carrier/nccl/mapping.cpp \
    src/carrier/nccl/mapping.hpp
