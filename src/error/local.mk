# MPI errors of Switchyard's own, and what formats all texts (programs beside the library compile it once more).
swy_formatting_sources = src/error/formatting.cpp
libswy_la_SOURCES += $(swy_formatting_sources)
libswy_la_SOURCES += \
    src/error/error.cpp src/error/error.hpp \
    src/error/unless_thrown.hpp
