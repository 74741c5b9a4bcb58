# What a call is: its description, its transport and the reason for that, and what stands between the program and the real MPI.
call_sources = \
    src/call/call.hpp \
    src/call/comm_name.cpp src/call/comm_name.hpp \
    src/call/counted.hpp \
    src/call/depth.hpp \
    src/call/entry_point.hpp \
    src/call/envelope.cpp src/call/envelope.hpp \
    src/call/hash.hpp \
    src/call/job.hpp \
    src/call/private_comm.cpp src/call/private_comm.hpp \
    src/call/replace.hpp \
    src/call/resolve.cpp src/call/resolve.hpp
reason_sources = src/call/reason.cpp src/call/reason.hpp
