// What `switchyard doctor` looks at. Each check has a result, what was seen, and what to do where something is wrong.
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
Check check_nccl(const Patient& patient);
Check check_settings(const Patient& patient);
Check check_shared_memory(const Patient& patient);
Check check_preload(const Patient& patient);

// Of the program that is named: its libraries, and what is wrong with what it brings.
std::vector<Check> check_program(const Patient& patient);

// Starts two ranks: is the library in them, do they exchange data, has each a GPU of its own?
std::vector<Check> check_ranks(const Patient& patient);

}  // namespace swy::cli
