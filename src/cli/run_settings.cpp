#include "cli/run_settings.hpp"

#include <cstdlib>
#include <filesystem>

#include "settings/settings.hpp"

namespace swy::cli {

void put(Environment& settings, const std::string& name, const std::string& value) {
    for (auto& [key, before] : settings) {
        if (key == name) {
            before = value;
            return;
        }
    }
    settings.emplace_back(name, value);
}

std::string put_assignment(Environment& settings, const std::string& assignment) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == assignment.size())
        return "--set takes NAME=VALUE, as in --set p2p_comm=pair, not " + assignment;
    const std::string name = assignment.substr(0, equals);
    const std::string variable(settings::variable_of(name));
    if (variable.empty())
        return "--set " + assignment + ": " + name + " is not a setting of Switchyard; the nearest one is " +
               settings::nearest_short_name(name) + " (all of them: switchyard info)";
    put(settings, variable, assignment.substr(equals + 1));
    return {};
}

void choose_nccl(Environment& settings, const std::string& file, bool virtual_gpus) {
    put(settings, "SWITCHYARD_NCCL_LIBRARY",
        file.find('/') == std::string::npos ? file : std::filesystem::absolute(file).string());
    if (virtual_gpus)
        setenv("VGPU_MACHINE", "rtx-pro-6000", 0);
}

std::string adopt(const Environment& settings) {
    for (const auto& [name, value] : settings)
        setenv(name.c_str(), value.c_str(), 1);
    settings::Values ignored;
    return settings::read(ignored);
}

}  // namespace swy::cli
