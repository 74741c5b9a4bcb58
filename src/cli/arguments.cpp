#include "cli/arguments.hpp"

#include <cstdio>
#include <vector>

#include "cli/commands.hpp"

namespace swy::cli {

std::optional<int> read_arguments(CLI::App& app, std::span<const std::string> words) {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
    try {
        app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return kDone;
    } catch (const CLI::ParseError& error) {
        return refuse(app, std::string(error.what()) + " (" + app.get_name() + " --help)", kUsage);
    }
    return std::nullopt;
}

int refuse(const CLI::App& app, const std::string& text, int status) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), text.c_str());
    return status;
}

}  // namespace swy::cli
