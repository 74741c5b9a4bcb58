# Point-to-point: envelopes, matching, pair communicators.
p2p_sources = \
    src/p2p/start.cpp src/p2p/start.hpp \
    src/p2p/watched.cpp src/p2p/watched.hpp \
    src/p2p/control.cpp src/p2p/control.hpp \
    src/p2p/delivery.cpp \
    src/p2p/devices.cpp src/p2p/devices.hpp \
    src/p2p/service.cpp src/p2p/service.hpp \
    src/p2p/probed_messages.cpp src/p2p/probed_messages.hpp \
    src/p2p/bounce_buffer.cpp src/p2p/bounce_buffer.hpp \
    src/p2p/mapped.cpp src/p2p/mapped.hpp \
    src/p2p/multiprocessors.cpp src/p2p/multiprocessors.hpp \
    src/p2p/pair_comm.cpp src/p2p/pair_comm.hpp \
    src/p2p/pair_comm_cache.cpp src/p2p/pair_comm_cache.hpp \
    src/p2p/pair_comms.cpp src/p2p/pair_comms.hpp \
    src/p2p/shared_receive_buffer.cpp src/p2p/shared_receive_buffer.hpp \
    src/p2p/partition_messages.hpp src/p2p/partition_receive.cpp src/p2p/partition_send.cpp \
    src/p2p/partitioned_side.hpp \
    src/p2p/partitioned.cpp src/p2p/partitioned.hpp \
    src/p2p/partitioned_staged.cpp \
    src/p2p/point_to_point.hpp \
    src/p2p/probe.cpp src/p2p/probe.hpp \
    src/p2p/receive.cpp src/p2p/receive.hpp \
    src/p2p/invalid_arguments.cpp src/p2p/invalid_arguments.hpp \
    src/p2p/send.cpp src/p2p/send.hpp \
    src/p2p/shared.cpp src/p2p/shared.hpp \
    src/p2p/dispatch.cpp
