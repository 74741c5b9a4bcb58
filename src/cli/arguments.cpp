#include "cli/arguments.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cli/commands.hpp"
#include "cli/install_paths.hpp"

namespace swy::cli {

std::string file_without_name(const CLI::App& app) {
    for (const CLI::Option* option : app.get_options())
        for (const std::string& file : option->results())
            if (file.empty() && (option->get_type_name() == "FILE" || option->get_type_name() == "PAGE"))
                return option->get_name() + " needs the name of a file, and was given an empty one";
    return {};
}

std::string seconds_problem(const std::string& argument) {
    char* end = nullptr;
    const double seconds = std::strtod(argument.c_str(), &end);
    const bool number = *end == '\0' && seconds > 0 && std::isfinite(seconds);
    return number ? "" : "a number of seconds above 0, not " + argument;
}

std::optional<int> read_arguments(CLI::App& app, std::span<const std::string> arguments) {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    try {
        app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return kDone;
    } catch (const CLI::ParseError& error) {
        return refuse(app, std::string(error.what()) + " (" + app.get_name() + " --help)", kUsage);
    }
    if (const std::string problem = file_without_name(app); !problem.empty())
        return refuse(app, problem, kUsage);
    return std::nullopt;
}

int refuse(const CLI::App& app, const std::string& text, int status) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), text.c_str());
    return status;
}

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
