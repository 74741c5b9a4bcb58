// Makes the mpirun command line of `switchyard run` from its options and the environment, without side effects, and
// says where mpirun is known to refuse it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace swy::cli {

using Environment = std::vector<std::pair<std::string, std::string>>;  // name, value

struct Wishes {
    std::string mpirun;                       // as find_mpirun() says
    std::string shim;                         // libswitchyard.so
    std::string virtual_gpus;                 // folder of their libraries; "" without them
    int count = 0;                            // of virtual GPUs per node
    Environment settings;                     // SWITCHYARD_* variables; the others are left to the environment
    std::string gpus;                         // "near", "spread", "none"; "" or "all" leaves them as they are
    std::string command;                      // this one, which each rank starts before the program
    std::vector<std::string> mpirun_options;  // passed through as they are
    std::vector<std::string> program;         // and its arguments
};

struct Launch {
    Environment added;                   // to mpirun's own environment
    std::vector<std::string> arguments;  // mpirun and all that follows
};

// Returns a setting of the wishes that mpirun's option -x gives too, which it refuses; "" where there is none.
std::string exported_twice(const Wishes& wishes);

bool can_be_preloaded(const std::string& library);  // LD_PRELOAD separates its entries by spaces and colons

Launch make_launch(const Wishes& wishes, const Environment& environment);

// The launch in a process that a launcher (srun, mpirun) has started as one of a job's ranks: the program itself, in
// the environment that mpirun would have given it. The caller chooses the GPU.
Launch make_rank(const Wishes& wishes, const Environment& environment);

// Returns the command as one line for a POSIX shell.
std::string shell_quoted(const std::string& argument);
std::string shell_line(const Launch& launch);

// Returns a hint for each refusal of mpirun's that is to be expected, with the option to add: mpirun's own message
// names its own options, and not those of `switchyard run`. Doubtful cases are left out: a hint before a job that runs
// is a nuisance.
std::vector<std::string> expected_refusals(const Wishes& wishes, const Environment& environment);

}  // namespace swy::cli
