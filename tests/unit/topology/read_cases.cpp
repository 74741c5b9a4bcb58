#include "read_cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace swy::topology {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> split(const std::string& line, char separator) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; std::getline(stream, word, separator);)
        words.push_back(word);
    return words;
}

}  // namespace

std::vector<Case> read_cases(const fs::path& file) {
    std::vector<Case> cases;
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    const std::vector<std::string> names = split(line, '\t');
    while (std::getline(stream, line)) {
        const std::vector<std::string> words = split(line, '\t');
        Case one;
        for (std::size_t i = 0; i < std::min(names.size(), words.size()); ++i)
            one[names[i]] = words[i];
        cases.push_back(one);
    }
    return cases;
}

fs::path source() {
    const char* given = std::getenv("SWY_SRCDIR");
    return given != nullptr ? given : ".";
}

fs::path cases_folder() {
    return source() / "tests/topology";
}

}  // namespace swy::topology
