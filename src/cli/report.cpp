#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "report/html.hpp"
#include "report/summary.hpp"
#include "report/timeline.hpp"

namespace swy::cli {

namespace {

struct Files {
    std::vector<report::NamedReport> reports;
    std::vector<report::NamedTimeline> traces;
};

std::string take(const std::string& file, Files& files) {
    errno = 0;
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream content;
    if (!stream || !(content << stream.rdbuf()))
        return file + " cannot be read: " + (errno != 0 ? std::strerror(errno) : "it is empty");
    const std::string text = content.str();
    std::string problem;
    if (report::is_trace(text))
        problem = from_trace(text, files.traces.emplace_back(report::NamedTimeline{file, {}}).timeline);
    else
        problem = from_json(text, files.reports.emplace_back(report::NamedReport{file, {}}).summary);
    return problem.empty() ? "" : file + " is " + problem;
}

int write_page(const CLI::App& app, const std::string& path, const Files& files) {
    std::ofstream page(path, std::ios::binary);
    page << as_html(files.reports, files.traces);
    page.close();
    return page ? kDone : refuse(app, path + " cannot be written: " + std::strerror(errno), kProblem);
}

int print(const Files& files) {
    std::vector<report::Summary> summaries;
    std::vector<std::string> names;
    for (const report::NamedReport& one : files.reports) {
        summaries.push_back(one.summary);
        names.push_back(one.name);
    }
    const report::Form form = report::form_of(stdout);
    const bool one = summaries.size() == 1;
    std::fputs((one ? as_text(summaries[0], form) : compared(summaries, names, form)).c_str(), stdout);
    return kDone;
}

}  // namespace

int report(std::span<const std::string> arguments) {
    std::vector<std::string> names;
    std::string html;
    CLI::App app("Prints a report that a run has written to a file, or compares those of several runs.",
                 "switchyard report");
    app.add_option("FILE", names, "written by switchyard run --report=json:FILE; with --html also by --trace FILE")
        ->required()
        ->type_name("");
    app.add_option("--html", html, "write reports and traces to one page for a browser")->type_name("PAGE");
    if (const auto status = read_arguments(app, arguments))
        return *status;
    Files files;
    for (const std::string& name : names)
        if (const std::string problem = take(name, files); !problem.empty())
            return refuse(app, problem, kProblem);
    if (!html.empty())
        return write_page(app, html, files);
    if (!files.traces.empty())
        return refuse(app, files.traces[0].name + " is a trace: --html PAGE shows it, and so does ui.perfetto.dev",
                      kUsage);
    return print(files);
}

}  // namespace swy::cli
