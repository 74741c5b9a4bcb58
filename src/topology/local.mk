# Which GPU, NUMA node and network device for which rank. The switchyard command uses it too.
topology_sources = \
    src/topology/assignment.cpp src/topology/assignment.hpp \
    src/topology/choice.cpp src/topology/choice.hpp \
    src/topology/cpus.cpp src/topology/cpus.hpp \
    src/topology/devices.cpp src/topology/devices.hpp \
    src/topology/distance.cpp src/topology/distance.hpp \
    src/topology/lists.cpp src/topology/lists.hpp \
    src/topology/machine.cpp src/topology/machine.hpp \
    src/topology/memory.cpp src/topology/memory.hpp \
    src/topology/nics.cpp src/topology/nics.hpp \
    src/topology/order.cpp src/topology/order.hpp
