# What a program may include.
include_HEADERS += include/mpix_switchyard.h
