# Sources: libswy_la_SOURCES += src/error/FILE.cpp src/error/FILE.hpp
