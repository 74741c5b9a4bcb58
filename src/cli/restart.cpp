#include "cli/restart.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cli/commands.hpp"
#include "cli/install_paths.hpp"

namespace swy::cli {

namespace {

constexpr std::string_view kOption = "--virtual-gpus";

std::vector<std::string> without_option(std::span<const std::string> arguments) {
    std::vector<std::string> kept;
    for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
        if (*argument == kOption && argument + 1 != arguments.end())
            ++argument;
        else if (!argument->starts_with(kOption))
            kept.push_back(*argument);
    }
    return kept;
}

}  // namespace

int restart_with_virtual_gpus(int count, const std::string& command, std::span<const std::string> arguments) {
    const InstallPaths paths = find_install_paths();
    if (!paths.virtual_gpus) {
        std::fprintf(stderr, "switchyard %s: the virtual GPUs' libraries are not where they belong, in %s\n",
                     command.c_str(), paths.expected_virtual_gpus.c_str());
        return kProblem;
    }
    const char* before = std::getenv("LD_LIBRARY_PATH");
    const std::string path =
        paths.virtual_gpus->string() + (before != nullptr && *before != '\0' ? ":" + std::string(before) : "");
    setenv("LD_LIBRARY_PATH", path.c_str(), 1);
    setenv("VGPU_COUNT", std::to_string(count).c_str(), 1);
    std::vector<std::string> kept = without_option(arguments);
    kept.insert(kept.begin(), {"switchyard", command});
    std::vector<char*> argv;
    for (std::string& argument : kept)
        argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(paths.command.c_str(), argv.data());
    std::perror(("switchyard " + command).c_str());
    return kProblem;
}

}  // namespace swy::cli
