# Collectives: how their ranks agree, and what becomes of an agreement.
coll_sources = \
    src/coll/collective_operation.cpp src/coll/collective_operation.hpp \
    src/coll/agree.cpp src/coll/agree.hpp \
    src/coll/agreement.cpp src/coll/agreement.hpp \
    src/coll/agreement_transport.cpp src/coll/agreement_transport.hpp \
    src/coll/roll_call.cpp src/coll/roll_call.hpp \
    src/coll/vote_record.cpp src/coll/vote_record.hpp \
    src/coll/pending_agreement.cpp src/coll/pending_agreement.hpp \
    src/coll/nonblocking.cpp src/coll/nonblocking.hpp \
    src/coll/comm_created.cpp src/coll/comm_created.hpp \
    src/coll/collective.cpp src/coll/collective.hpp \
    src/coll/ordered_launch.cpp src/coll/ordered_launch.hpp \
    src/coll/saved_call.cpp src/coll/saved_call.hpp \
    src/coll/operands.cpp src/coll/operands.hpp \
    src/coll/persistent.cpp src/coll/persistent.hpp \
    src/coll/repeat.cpp src/coll/repeat.hpp \
    src/coll/agree_and_setup.cpp src/coll/agree_and_setup.hpp \
    src/coll/tuning.cpp src/coll/tuning.hpp \
    src/coll/concurrent_collectives.cpp src/coll/concurrent_collectives.hpp \
    src/coll/vote.cpp src/coll/vote.hpp
