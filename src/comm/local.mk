# Sources: libswy_la_SOURCES += src/comm/FILE.cpp src/comm/FILE.hpp
