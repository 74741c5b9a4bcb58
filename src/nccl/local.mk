# Collectives and point-to-point over NCCL.
libswy_la_SOURCES += \
    src/nccl/collectives.cpp src/nccl/collectives.hpp \
    src/nccl/communicator.cpp src/nccl/communicator.hpp \
    src/nccl/enqueue.cpp src/nccl/enqueue.hpp \
    src/nccl/exchange.cpp src/nccl/exchange.hpp \
    src/nccl/operation.cpp src/nccl/operation.hpp \
    src/nccl/kernel_reduction.cpp src/nccl/kernel_reduction.hpp \
    src/nccl/launch.hpp \
    src/nccl/library.cpp src/nccl/library.hpp \
    src/nccl/local_members.cpp src/nccl/local_members.hpp \
    src/nccl/mapping.cpp src/nccl/mapping.hpp \
    src/nccl/member.cpp src/nccl/member.hpp \
    src/nccl/packing.cpp src/nccl/packing.hpp \
    src/nccl/point_to_point.cpp src/nccl/point_to_point.hpp \
    src/nccl/split.cpp
