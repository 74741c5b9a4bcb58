# The CUDA driver. Listed in a variable of their own, since the switchyard command compiles these files too
# (src/cli/local.mk).
swy_device_sources = \
    src/device/context.cpp \
    src/device/device.hpp \
    src/device/driver.cpp \
    src/device/driver.hpp \
    src/device/entry_points.def \
    src/device/home.cpp \
    src/device/home.hpp \
    src/device/lane.cpp \
    src/device/libraries.cpp \
    src/device/libraries.hpp \
    src/device/location.cpp \
    src/device/pinned.cpp \
    src/device/presence.cpp \
    src/device/presence.hpp \
    src/device/scratch.cpp \
    src/device/scratch.hpp
libswy_la_SOURCES += $(swy_device_sources)
