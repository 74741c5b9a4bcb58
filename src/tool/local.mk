# What MPI's tool information interface shows of Switchyard.
tool_sources = \
    src/tool/variables.cpp src/tool/variables.hpp
