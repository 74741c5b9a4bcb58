#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "report/summary.hpp"

namespace swy::cli {

namespace {

std::string read_report(const std::string& file, report::Summary& summary) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    if (!stream || !(text << stream.rdbuf()))
        return file + " cannot be read: " + (errno != 0 ? std::strerror(errno) : "it is empty");
    const std::string problem = report::from_json(text.str(), summary);
    return problem.empty() ? "" : file + " is " + problem;
}

}  // namespace

int report(std::span<const std::string> words) {
    std::vector<std::string> files;
    CLI::App app("Prints a report that a run has written to a file, or compares those of several runs.",
                 "switchyard report");
    app.add_option("FILE", files, "written by switchyard run --report=json:FILE")->required()->type_name("");
    if (const auto status = read_arguments(app, words))
        return *status;
    std::vector<report::Summary> summaries(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
        errno = 0;
        if (const std::string problem = read_report(files[i], summaries[i]); !problem.empty())
            return refuse(app, problem, kProblem);
    }
    std::fputs((files.size() == 1 ? as_text(summaries[0]) : compared(summaries, files)).c_str(), stdout);
    return kDone;
}

}  // namespace swy::cli
