# One-sided communication on device memory.
window_sources = \
    src/window/calls.cpp \
    src/window/create.cpp \
    src/window/direct.cpp src/window/direct.hpp \
    src/window/directory.cpp src/window/directory.hpp \
    src/window/dynamic.cpp \
    src/window/mirror.cpp src/window/mirror.hpp \
    src/window/pending.cpp src/window/pending.hpp \
    src/window/state.cpp src/window/state.hpp \
    src/window/synchronisation.cpp \
    src/window/translation.cpp \
    src/window/window.hpp
