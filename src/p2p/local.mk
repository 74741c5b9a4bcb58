# Point-to-point: envelopes, matching, lanes.
libswy_la_SOURCES += \
    src/p2p/begin.cpp \
    src/p2p/begin.hpp \
    src/p2p/control.cpp \
    src/p2p/control.hpp \
    src/p2p/counted.hpp \
    src/p2p/envelope.cpp \
    src/p2p/envelope.hpp \
    src/p2p/exchange.cpp \
    src/p2p/exchange.hpp \
    src/p2p/kept.cpp \
    src/p2p/kept.hpp \
    src/p2p/landing.cpp \
    src/p2p/landing.hpp \
    src/p2p/lane.cpp \
    src/p2p/lane.hpp \
    src/p2p/lane_cache.cpp \
    src/p2p/lane_cache.hpp \
    src/p2p/lanes.cpp \
    src/p2p/lanes.hpp \
    src/p2p/ledger.hpp \
    src/p2p/payload.cpp \
    src/p2p/payload.hpp \
    src/p2p/plain.cpp \
    src/p2p/plain.hpp \
    src/p2p/point_to_point.hpp \
    src/p2p/probe.cpp \
    src/p2p/probe.hpp \
    src/p2p/receive.cpp \
    src/p2p/receive.hpp \
    src/p2p/send.cpp \
    src/p2p/send.hpp \
    src/p2p/shared.cpp \
    src/p2p/shared.hpp \
    src/p2p/take.cpp \
    src/p2p/transfer.hpp
