# MPI errors of Switchyard's own.
libswy_la_SOURCES += \
    src/error/error.cpp \
    src/error/error.hpp
