# MPI errors of Switchyard's own, and what formats all texts.
formatting_sources = src/error/formatting.cpp
error_sources = src/error/error.cpp src/error/error.hpp src/error/loss.cpp src/error/loss.hpp \
    src/error/required.cpp src/error/required.hpp src/error/unless_thrown.hpp
