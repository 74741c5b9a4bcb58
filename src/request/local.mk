# Sources: libswy_la_SOURCES += src/request/FILE.cpp src/request/FILE.hpp
