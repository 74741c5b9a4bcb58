# The report at MPI_Finalize. What needs no MPI the switchyard command uses too: the report's counters, text and JSON, and
# the trace of the work on streams that src/device records.
report_text_sources = \
    src/report/advice.cpp src/report/advice.hpp \
    src/report/counters.cpp src/report/counters.hpp src/report/counter_table.hpp \
    src/report/figures.cpp src/report/figures.hpp \
    src/report/flights.cpp src/report/flights.hpp src/report/flight_file.hpp \
    src/report/json.cpp \
    src/report/processes.cpp src/report/processes.hpp \
    src/report/summary.hpp \
    src/report/table.cpp src/report/table.hpp \
    src/report/text.cpp \
    src/report/trace.cpp src/report/trace.hpp \
    src/report/units.cpp src/report/units.hpp

# The page of `switchyard report --html`: its style and script as they are edited, and as literals for the compiler.
report_page_sources = src/report/html.cpp src/report/html.hpp src/report/timeline.cpp src/report/timeline.hpp
EXTRA_DIST += src/report/page/page.css src/report/page/page.js
CLEANFILES += src/report/page_css.inc src/report/page_js.inc
make_literal = $(MKDIR_P) src/report && { printf 'R"SWY('; cat $<; printf ')SWY"\n'; } >$@.tmp && mv $@.tmp $@
src/report/page_css.inc: src/report/page/page.css
	$(AM_V_GEN)$(make_literal)
src/report/page_js.inc: src/report/page/page.js
	$(AM_V_GEN)$(make_literal)
src/report/switchyard-html.$(OBJEXT) unity/switchyard-cli_report.$(OBJEXT): src/report/page_css.inc src/report/page_js.inc
report_sources = \
    src/report/clock.cpp src/report/clock.hpp \
    src/report/flight.cpp src/report/flight.hpp \
    src/report/last_words.cpp src/report/last_words.hpp \
    src/report/op_record.hpp \
    src/report/ranges.cpp src/report/ranges.hpp \
    src/report/report.cpp src/report/report.hpp \
    src/report/routes.cpp src/report/routes.hpp \
    src/report/trace_file.cpp src/report/trace_file.hpp \
    src/report/watchdog.cpp src/report/watchdog.hpp
