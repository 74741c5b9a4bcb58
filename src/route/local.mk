# Which carrier takes a call; what happens at MPI_Init and MPI_Finalize.
libswy_la_SOURCES += \
    src/route/agreement.cpp \
    src/route/agreement.hpp \
    src/route/begun.cpp \
    src/route/begun.hpp \
    src/route/call.hpp \
    src/route/child.cpp \
    src/route/child.hpp \
    src/route/depth.hpp \
    src/route/gate.cpp \
    src/route/gate.hpp \
    src/route/in_turn.cpp \
    src/route/in_turn.hpp \
    src/route/job.hpp \
    src/route/kept_call.cpp \
    src/route/kept_call.hpp \
    src/route/lifecycle.cpp \
    src/route/lifecycle.hpp \
    src/route/operands.cpp \
    src/route/operands.hpp \
    src/route/plain.hpp \
    src/route/reason.cpp \
    src/route/reason.hpp \
    src/route/repeat.cpp \
    src/route/repeat.hpp \
    src/route/route.hpp \
    src/route/surroundings.cpp \
    src/route/surroundings.hpp \
    src/route/take.cpp \
    src/route/tuning.cpp \
    src/route/tuning.hpp \
    src/route/tuning_file.cpp \
    src/route/tuning_file.hpp \
    src/route/under_way.cpp \
    src/route/under_way.hpp \
    src/route/vote.cpp \
    src/route/vote.hpp
