# What Switchyard knows of a communicator.
libswy_la_SOURCES += \
    src/comm/attempt.cpp \
    src/comm/attempt.hpp \
    src/comm/board.cpp \
    src/comm/board.hpp \
    src/comm/control.cpp \
    src/comm/control.hpp \
    src/comm/establish.cpp \
    src/comm/establish.hpp \
    src/comm/exchange.cpp \
    src/comm/exchange.hpp \
    src/comm/group_file.cpp \
    src/comm/group_file.hpp \
    src/comm/making.hpp \
    src/comm/named.cpp \
    src/comm/named.hpp \
    src/comm/neighbours.cpp \
    src/comm/neighbours.hpp \
    src/comm/order.cpp \
    src/comm/order.hpp \
    src/comm/places.cpp \
    src/comm/places.hpp \
    src/comm/state.cpp \
    src/comm/state.hpp \
    src/comm/suggest.cpp \
    src/comm/suggest.hpp \
    src/comm/tuned.cpp \
    src/comm/tuned.hpp \
    src/comm/unique_ids.cpp \
    src/comm/unique_ids.hpp \
    src/comm/world.cpp \
    src/comm/world.hpp
