# Host memory in place of device memory, around a real MPI call.
staging_sources = \
    src/staging/average.cpp src/staging/average.hpp \
    src/staging/begin.cpp \
    src/staging/file_ranks.cpp src/staging/file_ranks.hpp \
    src/staging/in_pieces.cpp src/staging/in_pieces.hpp \
    src/staging/limited_transfer.hpp \
    src/staging/messages.cpp src/staging/messages.hpp \
    src/staging/pipeline.cpp src/staging/pipeline.hpp \
    src/staging/run.cpp \
    src/staging/split.cpp src/staging/split.hpp \
    src/staging/host_mirror.cpp src/staging/host_mirror.hpp \
    src/staging/staged.hpp \
    src/staging/staging.cpp src/staging/staging.hpp \
    src/staging/transfer.hpp \
    src/staging/unpack.cpp
