# What Switchyard knows of a communicator.
comm_sources = \
    src/comm/agreement_interval.hpp \
    src/comm/shared_page.cpp src/comm/shared_page.hpp \
    src/comm/contribution.cpp src/comm/contribution.hpp \
    src/comm/job_messages.cpp src/comm/job_messages.hpp \
    src/comm/collective_setup.cpp src/comm/collective_setup.hpp \
    src/comm/losses.cpp src/comm/losses.hpp \
    src/comm/setup.cpp src/comm/setup.hpp \
    src/comm/gates.cpp src/comm/gates.hpp \
    src/comm/exchange.cpp src/comm/exchange.hpp \
    src/comm/setup_facts.cpp src/comm/setup_facts.hpp \
    src/comm/launch_order.cpp src/comm/launch_order.hpp \
    src/comm/launch_tokens.cpp src/comm/launch_tokens.hpp \
    src/comm/buffer_slots.cpp src/comm/buffer_slots.hpp \
    src/comm/merged.cpp src/comm/merged.hpp \
    src/comm/state.cpp src/comm/state.hpp \
    src/comm/suggest.cpp src/comm/suggest.hpp \
    src/comm/tuned.cpp src/comm/tuned.hpp \
    src/comm/where.cpp src/comm/where.hpp \
    src/comm/unique_ids.cpp src/comm/unique_ids.hpp \
    src/comm/world.cpp src/comm/world.hpp
