# Point-to-point: envelopes, matching, lanes.
libswy_la_SOURCES += src/p2p/control.hpp src/p2p/envelope.hpp src/p2p/lanes.hpp src/p2p/payload.cpp src/p2p/payload.hpp \
    src/p2p/plain.cpp src/p2p/plain.hpp src/p2p/point_to_point.hpp src/p2p/transfer.hpp
