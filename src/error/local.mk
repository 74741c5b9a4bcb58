# MPI errors of Switchyard's own, and what formats all texts (programs beside the library compile it once more).
swy_formatting_sources = src/error/formatting.cpp
libswy_la_SOURCES += $(swy_formatting_sources) \
    src/error/error.cpp \
    src/error/error.hpp
