// The tables of tests/topology: a line a case, with tabs between, and names in the first line.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace swy::topology {

using Case = std::map<std::string, std::string>;  // by the names in the first line

std::vector<Case> read_cases(const std::filesystem::path& file);
std::filesystem::path source();        // top of the source tree
std::filesystem::path cases_folder();  // tests/topology

}  // namespace swy::topology
