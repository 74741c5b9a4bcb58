# Communication in the order of the program's CUDA streams.
stream_sources = \
    src/ext/stream/staged_operand.cpp src/ext/stream/staged_operand.hpp \
    src/ext/stream/collective.cpp \
    src/ext/stream/communicator.cpp src/ext/stream/communicator.hpp \
    src/ext/stream/enqueue.hpp \
    src/ext/stream/message.cpp src/ext/stream/message.hpp \
    src/ext/stream/object.cpp src/ext/stream/object.hpp \
    src/ext/stream/size_check.cpp src/ext/stream/size_check.hpp
