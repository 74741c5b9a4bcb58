# Waiting with progress, operations, and the requests that stand for them.
libswy_la_SOURCES += \
    src/request/complete.cpp \
    src/request/complete.hpp \
    src/request/completing.cpp \
    src/request/completing.hpp \
    src/request/engine.cpp \
    src/request/engine.hpp \
    src/request/handle.cpp \
    src/request/handle.hpp \
    src/request/known.hpp \
    src/request/operation.cpp \
    src/request/operation.hpp \
    src/request/persistent.cpp \
    src/request/table.cpp \
    src/request/table.hpp \
    src/request/wait.cpp \
    src/request/wait.hpp \
    src/request/watched.cpp \
    src/request/watched.hpp
