# Messages of unknown size. On top of the entry points, which the library alone has.
message_header_sources = \
    src/ext/message/header.cpp src/ext/message/header.hpp \
    src/ext/message/sink.cpp src/ext/message/sink.hpp
message_sources = \
    src/ext/message/broadcast.cpp \
    src/ext/message/payload.cpp src/ext/message/payload.hpp \
    src/ext/message/receive.cpp \
    src/ext/message/send.cpp
