# Unit tests: GoogleTest programs that link libswy.la.
