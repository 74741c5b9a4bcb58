# What a program may include.
include_HEADERS += include/mpix_switchyard.h
# In a folder of its own, where only who asks for Switchyard finds it.
wrappedincludedir = $(includedir)/switchyard
wrappedinclude_HEADERS = include/switchyard/mpi-ext.h
