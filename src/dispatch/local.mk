# Which way a call goes.
dispatch_sources = \
    src/dispatch/dispatch.cpp src/dispatch/dispatch.hpp
