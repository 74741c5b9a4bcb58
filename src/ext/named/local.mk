# Groups by name.
libswy_la_SOURCES += \
    src/ext/named/group_file.cpp src/ext/named/group_file.hpp \
    src/ext/named/named.cpp src/ext/named/named.hpp
