# Sources: libswy_la_SOURCES += src/device/FILE.cpp src/device/FILE.hpp
