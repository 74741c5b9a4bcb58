# Collectives and point-to-point over NCCL.
libswy_la_SOURCES += \
    src/carrier/nccl/collectives.cpp \
    src/carrier/nccl/collectives.hpp \
    src/carrier/nccl/communicator.cpp \
    src/carrier/nccl/communicator.hpp \
    src/carrier/nccl/enqueue.cpp \
    src/carrier/nccl/enqueue.hpp \
    src/carrier/nccl/exchange.cpp \
    src/carrier/nccl/exchange.hpp \
    src/carrier/nccl/flight.cpp \
    src/carrier/nccl/flight.hpp \
    src/carrier/nccl/kernel_reduction.cpp \
    src/carrier/nccl/kernel_reduction.hpp \
    src/carrier/nccl/launch.hpp \
    src/carrier/nccl/library.cpp \
    src/carrier/nccl/library.hpp \
    src/carrier/nccl/local_members.cpp \
    src/carrier/nccl/local_members.hpp \
    src/carrier/nccl/mapping.cpp \
    src/carrier/nccl/mapping.hpp \
    src/carrier/nccl/member.cpp \
    src/carrier/nccl/member.hpp \
    src/carrier/nccl/packing.cpp \
    src/carrier/nccl/packing.hpp \
    src/carrier/nccl/point_to_point.cpp \
    src/carrier/nccl/point_to_point.hpp \
    src/carrier/nccl/split.cpp
