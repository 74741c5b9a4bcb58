# The switchyard command, the report, the examples and the manual pages, as a user meets them.
EXTRA_PROGRAMS += tests/cli/known_calls tests/cli/random_messages tests/cli/stuck
tests_cli_known_calls_SOURCES = tests/cli/known_calls.c
tests_cli_known_calls_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_cli_known_calls_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath-link,vgpu/lib
tests_cli_known_calls_LDADD = vgpu/lib/libcudart.so.$(CUDA_MAJOR) $(MPI_LIBS)
tests_cli_random_messages_SOURCES = tests/cli/random_messages.c
tests_cli_random_messages_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_cli_random_messages_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath-link,vgpu/lib
tests_cli_random_messages_LDADD = vgpu/lib/libcudart.so.$(CUDA_MAJOR) $(MPI_LIBS)
tests_cli_stuck_SOURCES = tests/cli/stuck.c
tests_cli_stuck_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_cli_stuck_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath-link,vgpu/lib
tests_cli_stuck_LDADD = vgpu/lib/libcudart.so.$(CUDA_MAJOR) $(MPI_LIBS)

# A tool of NVTX for nvtx.test: a library by itself, which no other program needs.
check_DATA += tests/cli/nvtx_recorder.so
EXTRA_DIST += tests/cli/nvtx_recorder.c
CLEANFILES += tests/cli/nvtx_recorder.so tests/cli/page-*.png
tests/cli/nvtx_recorder.so: tests/cli/nvtx_recorder.c
	$(AM_V_CC)$(CC) $(CFLAGS) -shared -fPIC -I$(top_srcdir) -o $@ $(srcdir)/tests/cli/nvtx_recorder.c

cli_tests = tests/cli/ci.test tests/cli/completion.test tests/cli/debug.test tests/cli/doctor.test tests/cli/examples.test tests/cli/gpus.test tests/cli/idle_gpus.test tests/cli/info.test tests/cli/manual.test tests/cli/manual_code.test tests/cli/manual_commands.test tests/cli/newcomer.test tests/cli/nvtx.test tests/cli/page.test tests/cli/report.test tests/cli/run.test \
    tests/cli/saved_report.test tests/cli/slurm.test tests/cli/status.test tests/cli/topo.test tests/cli/trace.test tests/cli/tune.test \
    tests/cli/user_environment.test
TESTS += $(cli_tests)
EXTRA_DIST += $(cli_tests) tests/cli/command.py tests/cli/commands_elsewhere.txt tests/cli/documents.py tests/cli/newcomer/its_program.c tests/cli/newcomer/other_mpi.c

if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/settings/settings tests/unit/report/report
tests_unit_settings_settings_SOURCES = tests/unit/settings/settings.cpp
tests_unit_settings_settings_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_settings_settings_LDADD = $(UNIT_LIBS)
tests_unit_report_report_SOURCES = tests/unit/report/counters.cpp tests/unit/report/processes.cpp \
                                  tests/unit/report/text.cpp
tests_unit_report_report_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_report_report_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/settings/settings tests/unit/report/report
endif
