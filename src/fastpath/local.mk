# What an entry point asks inline, before a call is described.
libswy_la_SOURCES += \
    src/fastpath/collective.cpp src/fastpath/collective.hpp \
    src/fastpath/driver_watch.cpp src/fastpath/driver_watch.hpp \
    src/fastpath/message.cpp src/fastpath/message.hpp
