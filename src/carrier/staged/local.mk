# The staged carrier.
libswy_la_SOURCES += src/carrier/staged/average.cpp src/carrier/staged/average.hpp \
    src/carrier/staged/begin.cpp src/carrier/staged/copies.cpp src/carrier/staged/copies.hpp src/carrier/staged/group.cpp \
    src/carrier/staged/group.hpp src/carrier/staged/kernel_pack.cpp src/carrier/staged/kernel_pack.hpp src/carrier/staged/messages.cpp src/carrier/staged/messages.hpp \
    src/carrier/staged/operands.cpp src/carrier/staged/operands.hpp src/carrier/staged/pack.cpp \
    src/carrier/staged/pack.hpp src/carrier/staged/part.cpp src/carrier/staged/part.hpp src/carrier/staged/pieces.cpp \
    src/carrier/staged/pieces.hpp src/carrier/staged/pipeline.cpp src/carrier/staged/pipeline.hpp \
    src/carrier/staged/run.cpp src/carrier/staged/shadow.cpp src/carrier/staged/shadow.hpp \
    src/carrier/staged/staged.hpp src/carrier/staged/staging.cpp src/carrier/staged/staging.hpp src/carrier/staged/unpack.cpp
