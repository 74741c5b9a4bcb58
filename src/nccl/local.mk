# Collectives and point-to-point over NCCL.
nccl_sources = \
    src/nccl/background.cpp src/nccl/background.hpp \
    src/nccl/collectives.cpp src/nccl/collectives.hpp \
    src/nccl/communicator.cpp src/nccl/communicator.hpp \
    src/nccl/communicator_cache.cpp src/nccl/count_live.hpp \
    src/nccl/exchange.cpp \
    src/nccl/group_call.hpp \
    src/nccl/job.hpp \
    src/nccl/kernel_reduction.cpp \
    src/nccl/launch.hpp \
    src/nccl/library.cpp src/nccl/library.hpp \
    src/nccl/mapping.cpp src/nccl/mapping.hpp \
    src/nccl/member.cpp src/nccl/member.hpp \
    src/nccl/operation.cpp src/nccl/operation.hpp \
    src/nccl/packing.cpp src/nccl/packing.hpp \
    src/nccl/transfer.cpp src/nccl/transfer.hpp
