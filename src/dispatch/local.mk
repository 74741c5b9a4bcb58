# Which way a call goes.
libswy_la_SOURCES += \
    src/dispatch/dispatch.cpp src/dispatch/dispatch.hpp
