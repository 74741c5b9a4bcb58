# Operands: which memory they name, in which pieces, and how these are copied and packed, by kernels and by the processor.
pack_sources = \
    src/pack/copies.cpp src/pack/copies.hpp \
    src/pack/group.cpp src/pack/group.hpp \
    src/pack/kernel_pack.cpp src/pack/kernel_pack.hpp \
    src/pack/neighbours.cpp src/pack/neighbours.hpp \
    src/pack/operands.cpp src/pack/operands.hpp \
    src/pack/pack.cpp src/pack/pack.hpp \
    src/pack/packed.cpp src/pack/packed.hpp \
    src/pack/part.cpp src/pack/part.hpp \
    src/pack/payload.cpp src/pack/payload.hpp \
    src/pack/pieces.cpp src/pack/pieces.hpp \
    src/pack/reduce.cpp src/pack/reduce.hpp
