# Unit tests: GoogleTest programs that link libswy.la.

if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/p2p_envelope
tests_unit_p2p_envelope_SOURCES = tests/unit/p2p_envelope.cpp tests/random_seed.hpp
tests_unit_p2p_envelope_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_p2p_envelope_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/p2p_envelope

EXTRA_PROGRAMS += tests/unit/message
tests_unit_message_SOURCES = tests/unit/message.cpp
tests_unit_message_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_message_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/message

EXTRA_PROGRAMS += tests/unit/unique_ids
tests_unit_unique_ids_SOURCES = tests/unit/unique_ids.cpp
tests_unit_unique_ids_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unique_ids_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/unique_ids
endif
