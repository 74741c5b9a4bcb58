# Communication in the order of the program's CUDA streams.
libswy_la_SOURCES += \
    src/stream/bring.cpp \
    src/stream/bring.hpp \
    src/stream/collective.cpp \
    src/stream/communicator.cpp \
    src/stream/communicator.hpp \
    src/stream/enqueue.hpp \
    src/stream/message.cpp \
    src/stream/message.hpp \
    src/stream/object.cpp \
    src/stream/object.hpp \
    src/stream/words.cpp \
    src/stream/words.hpp
