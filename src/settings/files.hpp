// The files that settings name. A process opens them in MPI_Init or MPI_Finalize, where it must not wait for a file
// that never ends or that nobody reads.
#pragma once

#include <cstdio>
#include <string>

namespace swy::settings {

// Returns "" for a path that leads to a regular file, and for one that leads to nothing; otherwise "PATH: what it is".
std::string not_regular(const std::string& path);

// Reads a regular file. Returns "" or "PATH: why not".
std::string read_file(const std::string& path, std::string& text);

// Opens a file anew, for writing. Null where that fails, with errno set: ENXIO for a pipe that nobody reads.
std::FILE* open_to_write(const std::string& path);

}  // namespace swy::settings
