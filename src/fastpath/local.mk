# What an entry point asks inline, before a call is described.
fastpath_sources = \
    src/fastpath/collective.cpp src/fastpath/collective.hpp \
    src/fastpath/driver_watch.cpp src/fastpath/driver_watch.hpp \
    src/fastpath/message.cpp src/fastpath/message.hpp
