# The doors. Sources made by the generator go to nodist_libswitchyard_la_SOURCES and BUILT_SOURCES.
