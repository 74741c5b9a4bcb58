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

std::vector<std::string> without_option(std::span<const std::string> words) {
    std::vector<std::string> kept;
    for (auto word = words.begin(); word != words.end(); ++word) {
        if (*word == kOption && word + 1 != words.end())
            ++word;
        else if (!word->starts_with(kOption))
            kept.push_back(*word);
    }
    return kept;
}

}  // namespace

int restart_with_virtual_gpus(int count, const std::string& command, std::span<const std::string> words) {
    const Places places = find_places();
    if (!places.virtual_gpus) {
        std::fprintf(stderr, "switchyard %s: the virtual GPUs' libraries are not where they belong, in %s\n",
                     command.c_str(), places.expected_virtual_gpus.c_str());
        return kProblem;
    }
    const char* before = std::getenv("LD_LIBRARY_PATH");
    const std::string path =
        places.virtual_gpus->string() + (before != nullptr && *before != '\0' ? ":" + std::string(before) : "");
    setenv("LD_LIBRARY_PATH", path.c_str(), 1);
    setenv("VGPU_COUNT", std::to_string(count).c_str(), 1);
    std::vector<std::string> kept = without_option(words);
    kept.insert(kept.begin(), {"switchyard", command});
    std::vector<char*> arguments;
    for (std::string& word : kept)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(places.command.c_str(), arguments.data());
    std::perror(("switchyard " + command).c_str());
    return kProblem;
}

}  // namespace swy::cli
