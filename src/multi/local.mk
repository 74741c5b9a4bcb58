# Several buffers of a process: the extension's calls.
libswy_la_SOURCES += \
    src/multi/arguments.cpp \
    src/multi/arguments.hpp \
    src/multi/call.cpp \
    src/multi/call.hpp \
    src/multi/channel.cpp \
    src/multi/channel.hpp \
    src/multi/collective.cpp \
    src/multi/collective.hpp \
    src/multi/elements.cpp \
    src/multi/elements.hpp \
    src/multi/facts.cpp \
    src/multi/facts.hpp \
    src/multi/host_work.cpp \
    src/multi/host_work.hpp \
    src/multi/messages.cpp \
    src/multi/messages.hpp \
    src/multi/setup.cpp \
    src/multi/setup.hpp \
    src/multi/tests.cpp \
    src/multi/tests.hpp
