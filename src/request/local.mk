# MPI's handles for operations: completion calls, watched and persistent requests.
request_sources = \
    src/request/complete.cpp src/request/complete.hpp \
    src/request/completing.cpp src/request/completing.hpp \
    src/request/handle.cpp src/request/handle.hpp \
    src/request/message_layer.cpp src/request/message_layer.hpp \
    src/request/persistent.cpp \
    src/request/receive_buffers.cpp src/request/receive_buffers.hpp \
    src/request/real_end.cpp src/request/real_end.hpp \
    src/request/table.cpp src/request/table.hpp \
    src/request/timed.cpp src/request/timed.hpp \
    src/request/watched.cpp
