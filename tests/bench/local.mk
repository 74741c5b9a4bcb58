# Benchmarks: built and run by hand or by `make bench`, they print ratios.
