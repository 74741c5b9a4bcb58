# Groups by name.
named_sources = \
    src/ext/named/group_file.cpp src/ext/named/group_file.hpp \
    src/ext/named/named.cpp src/ext/named/named.hpp
