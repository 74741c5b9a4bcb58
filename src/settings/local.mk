# The SWITCHYARD_* variables. The sources are listed once for the library and for the command.
swy_settings_sources = src/settings/parse.cpp src/settings/parse.hpp src/settings/rows.hpp src/settings/settings.cpp src/settings/settings.hpp
libswy_la_SOURCES += $(swy_settings_sources)
libswy_la_SOURCES += \
    src/settings/tuning_file.cpp src/settings/tuning_file.hpp \
    src/settings/version.cpp
