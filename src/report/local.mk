# The report at MPI_Finalize.
libswy_la_SOURCES += \
    src/report/counters.cpp src/report/counters.hpp \
    src/report/json.cpp \
    src/report/report.cpp src/report/report.hpp \
    src/report/summary.hpp \
    src/report/text.cpp
