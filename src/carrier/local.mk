# Sources: libswy_la_SOURCES += src/carrier/FILE.cpp src/carrier/FILE.hpp
