# The peer carrier: what a device does for one process alone.
libswy_la_SOURCES += src/carrier/peer/reduce.cpp src/carrier/peer/reduce.hpp
