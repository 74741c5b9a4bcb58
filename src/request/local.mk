# Waiting with progress.
libswy_la_SOURCES += \
    src/request/engine.hpp \
    src/request/handle.hpp \
    src/request/operation.hpp \
    src/request/wait.cpp \
    src/request/wait.hpp
