# Sources: libswy_la_SOURCES += src/device/FILE.cpp src/device/FILE.hpp
# Listed in a variable of their own, since the switchyard command compiles them too (src/cli/local.mk).
swy_device_sources =
libswy_la_SOURCES += $(swy_device_sources)
