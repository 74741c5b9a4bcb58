# The switchyard command. It links neither MPI nor libswitchyard, so that it can explain why one of them does not load.
bin_PROGRAMS += switchyard
switchyard_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(HWLOC_CFLAGS) \
    -DSWY_LIB_FROM_BIN='"$(lib_from_bin)"' -DSWY_MPIRUN='"$(MPIRUN)"'
cli_sources = \
    src/cli/arguments.cpp src/cli/arguments.hpp \
    src/cli/bounded_run.cpp src/cli/bounded_run.hpp \
    src/cli/check_program.cpp src/cli/check_ranks.cpp src/cli/checks.cpp src/cli/checks.hpp \
    src/cli/commands.hpp \
    src/cli/doctor.cpp \
    src/cli/ended.cpp \
    src/cli/info.cpp \
    src/cli/jobs.cpp src/cli/jobs.hpp \
    src/cli/launch.cpp src/cli/launch.hpp \
    src/cli/main.cpp \
    src/cli/manual.cpp \
    src/cli/needed.cpp src/cli/needed.hpp \
    src/cli/node.cpp src/cli/node.hpp src/cli/node_svg.cpp src/cli/node_text.cpp \
    src/cli/place.cpp src/cli/place.hpp \
    src/cli/install_paths.cpp src/cli/install_paths.hpp \
    src/cli/probe.cpp src/cli/probe.hpp \
    src/cli/report.cpp \
    src/cli/status.cpp \
    src/cli/run.cpp src/cli/run_settings.cpp src/cli/run_settings.hpp \
    src/cli/topo.cpp \
    src/cli/tune.cpp src/cli/measured_calls.hpp src/cli/tune_table.cpp src/cli/tune_table.hpp \
    src/cli/json.hpp
# What reads reports and draws them.
cli_report_sources = src/report/compare.cpp src/report/compare.hpp src/report/read.cpp $(report_page_sources)
if UNITY
nodist_switchyard_SOURCES = unity/cli.cpp unity/cli_report.cpp
switchyard_SOURCES =
else
switchyard_SOURCES = $(cli_sources) $(cli_report_sources)
endif
switchyard_LDADD = libswy_common.la $(HWLOC_LIBS) -ldl

# What doctor and tune start under mpirun: programs of MPI like those of users. Nobody starts them by hand.
doctordir = $(libdir)/switchyard
doctor_PROGRAMS = switchyard-exchange switchyard-measure
switchyard_exchange_SOURCES = src/cli/exchange_rank.cpp
switchyard_exchange_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
switchyard_exchange_LDADD = libswy_common.la $(MPI_LIBS) -ldl
switchyard_measure_SOURCES = src/cli/measure_rank.cpp src/cli/measured_calls.hpp
switchyard_measure_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
switchyard_measure_LDADD = libswy_common.la $(MPI_LIBS) -ldl

# Shell completion, where bash-completion, zsh and fish look for it.
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = src/cli/completion/bash/switchyard
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = src/cli/completion/zsh/_switchyard
fishcompletiondir = $(datadir)/fish/vendor_completions.d
dist_fishcompletion_DATA = src/cli/completion/fish/switchyard.fish
