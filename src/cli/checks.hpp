// The checks of `switchyard doctor`. Each has a result, what was found, and what to do where something is wrong.
#pragma once

#include <string>
#include <vector>

#include "cli/probe.hpp"

namespace swy::cli {

enum class Health { kGood, kNote, kProblem };  // a note: works, but a person should know

struct Check {
    std::string name;  // an identifier
    Health health = Health::kGood;
    std::string seen, remedy;
};

struct Patient {
    Findings found;
    std::string mpirun;        // as find_mpirun() says
    std::string program;       // of the user's, "" for none
    std::string bad_settings;  // one a line
    double seconds = 60;       // that two ranks may take
};

Check check_library(const Patient& patient);
Check check_mpirun(const Patient& patient);
Check check_driver(const Patient& patient);
Check check_kernels(const Patient& patient);
Check check_nccl(const Patient& patient);
Check check_settings(const Patient& patient);
Check check_shared_memory(const Patient& patient);
Check check_preload(const Patient& patient);

// Checks the program that is named: which libraries it would be started with, and which of them do not work here.
std::vector<Check> check_program(const Patient& patient);

// Starts two ranks, and checks that the library is loaded in both, that they exchange data, and that each has its own
// GPU.
std::vector<Check> check_ranks(const Patient& patient);

}  // namespace swy::cli
