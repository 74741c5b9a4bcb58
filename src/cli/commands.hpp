// The subcommands of `switchyard`, one function each; main.cpp calls them. Each returns the command's exit status.
#pragma once

#include <span>
#include <string>

namespace swy::cli {

// Exit statuses of switchyard itself. Those of `switchyard run` leave the small numbers to the program and follow
// env(1) and timeout(1).
enum Status : int {
    kDone = 0,
    kProblem = 1,          // found something wrong (a bad setting, a library that does not load, a file that does not)
    kUsage = 2,            // a mistake in the command line
    kRunFailed = 125,      // run: switchyard itself failed, the program was not started
    kNotExecutable = 126,  // run: PROGRAM is there but cannot be executed
    kNotFound = 127,       // run: PROGRAM was not found
};

int run(std::span<const std::string> arguments);   // those after "run"
int info(std::span<const std::string> arguments);  // those after "info"
int doctor(std::span<const std::string> arguments);
int ended(std::span<const std::string> arguments);  // not for users: the library starts it (report/last_words.hpp)
int place(std::span<const std::string> arguments);  // not for users: run has each rank start it before the program
int report(std::span<const std::string> arguments);
int status(std::span<const std::string> arguments);
int topo(std::span<const std::string> arguments);
int tune(std::span<const std::string> arguments);
int settings(std::span<const std::string> arguments);  // prints the tables for the manual; not for users

}  // namespace swy::cli
