# The SWITCHYARD_* variables. The switchyard command uses the first list's too.
settings_sources = src/settings/files.cpp src/settings/files.hpp src/settings/parse.cpp src/settings/parse.hpp src/settings/rows.hpp src/settings/settings.cpp \
    src/settings/settings.hpp src/settings/slurm.cpp src/settings/slurm.hpp src/settings/tuning_file.cpp src/settings/tuning_file.hpp
version_sources = src/settings/version.cpp
