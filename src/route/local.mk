# Sources: libswy_la_SOURCES += src/route/FILE.cpp src/route/FILE.hpp
