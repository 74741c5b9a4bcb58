# What is under way and who steps it: the engine, its operations, and every wait.
progress_sources = \
    src/progress/engine.cpp src/progress/engine.hpp \
    src/progress/keep_until.cpp src/progress/keep_until.hpp \
    src/progress/operation.cpp src/progress/operation.hpp \
    src/progress/stall.cpp src/progress/stall.hpp \
    src/progress/stepping.cpp src/progress/stepping.hpp \
    src/progress/wait.cpp src/progress/wait.hpp
