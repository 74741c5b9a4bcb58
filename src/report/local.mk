# The report at MPI_Finalize. What needs no MPI is listed once more for the switchyard command.
swy_report_sources = \
    src/report/summary.hpp \
    src/report/text.cpp \
    src/report/units.cpp src/report/units.hpp
libswy_la_SOURCES += \
    src/report/counters.cpp src/report/counters.hpp \
    src/report/json.cpp \
    src/report/report.cpp src/report/report.hpp \
    $(swy_report_sources)
