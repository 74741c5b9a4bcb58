# Example programs, installed as sources; built by `make check`.
