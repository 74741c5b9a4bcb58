# Sources: libswy_la_SOURCES += src/datatype/FILE.cpp src/datatype/FILE.hpp
