#include "cli/arguments.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cli/commands.hpp"

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

}  // namespace swy::cli
