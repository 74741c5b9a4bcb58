# Messages of unknown size. On top of the doors, which the library alone has.
libswy_la_SOURCES += src/message/header.cpp src/message/header.hpp src/message/sink.cpp src/message/sink.hpp
libswitchyard_la_SOURCES += \
    src/message/broadcast.cpp \
    src/message/doors.hpp \
    src/message/locks.hpp \
    src/message/payload.cpp \
    src/message/payload.hpp \
    src/message/receive.cpp \
    src/message/send.cpp
