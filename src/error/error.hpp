// MPI errors of Switchyard's own: class, text, and the call of the program's error handler. Any part of the library may
// raise one.
#pragma once

#include <mpi.h>

#include <string>

#include "call/call.hpp"

namespace swy::error {

// Raises an error of `mpi_class` (MPI_ERR_OTHER, MPI_ERR_BUFFER, ...) with `text` through the error handler of the
// call's owner (MPI_COMM_WORLD's where it has none), and returns the code that the wrapper must return. `text` says
// what happened, where, why, and what to do; it is what MPI_Error_string gives for the code (cut to
// MPI_MAX_ERROR_STRING there; the whole text goes to stderr once, when the handler is not MPI_ERRORS_RETURN).
int raise(const Call& call, int mpi_class, const std::string& text);
int raise(const Owner& owner, int mpi_class, const std::string& text);

// Returns the code without raising the error, for a status beside that of the error that is raised.
int code(int mpi_class, const std::string& text);

// Returns what MPI says of an error code.
std::string text_of(int code);

// What is to be done before an error ends the job, which init/lifecycle.cpp knows: one whose handler is
// MPI_ERRORS_ARE_FATAL, or, with SWITCHYARD_ON_FAILURE=abort, one of MPI_ERR_OTHER, which is none of the program's
// making.
using Saying = void (*)(const char* why);
extern Saying before_abort;

// A wait has been given up for SWITCHYARD_TIMEOUT. The next error has `on_timeout` called first, with that name: by
// then the other ranks have been told, for whom every moment counts.
void note_timeout();
void say_timeout();  // now, where an error would
extern Saying on_timeout;

}  // namespace swy::error
