# MPI datatypes and operators: layouts, elements.
datatype_sources = \
    src/datatype/decode.cpp src/datatype/decode.hpp \
    src/datatype/element.cpp src/datatype/element.hpp \
    src/datatype/extension.cpp src/datatype/extension.hpp \
    src/datatype/kept_type.cpp src/datatype/kept_type.hpp \
    src/datatype/layout.cpp src/datatype/layout.hpp \
    src/datatype/narrow_float.hpp \
    src/datatype/pack_work.hpp \
    src/datatype/pattern.cpp src/datatype/pattern.hpp \
    src/datatype/plan.cpp src/datatype/plan.hpp \
    src/datatype/predefined.cpp src/datatype/predefined.hpp \
    src/datatype/prefix.cpp src/datatype/prefix.hpp \
    src/datatype/quick.cpp src/datatype/quick.hpp \
    src/datatype/reduce_types.def \
    src/datatype/reduce_work.hpp \
    src/datatype/reduction.cpp src/datatype/reduction.hpp
