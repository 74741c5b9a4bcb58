# Several buffers of a process: the extension's calls.
multi_sources = \
    src/ext/multi/call.cpp src/ext/multi/call.hpp \
    src/ext/multi/channel.hpp \
    src/ext/multi/collective.cpp src/ext/multi/collective.hpp \
    src/ext/multi/elements.cpp src/ext/multi/elements.hpp \
    src/ext/multi/facts.cpp src/ext/multi/facts.hpp \
    src/ext/multi/host_work.cpp src/ext/multi/host_work.hpp \
    src/ext/multi/messages.cpp src/ext/multi/messages.hpp \
    src/ext/multi/setup.cpp src/ext/multi/setup.hpp
