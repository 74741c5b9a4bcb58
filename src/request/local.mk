# Waiting with progress.
libswy_la_SOURCES += \
    src/request/wait.cpp \
    src/request/wait.hpp
