#include "report/routes.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <unordered_set>

#include "call/comm_name.hpp"
#include "real.hpp"
#include "report/trace.hpp"
#include "settings/files.hpp"

namespace swy::report {

bool tells_routes = false;

namespace {

// The file stays open as long as the process, since a thread may still be printing when another is in MPI_Finalize.
std::FILE* routes_file = nullptr;  // null where no lines are wanted
bool staged_alone = false;
int routes_rank = 0;

// Opens the rank's file, so that each line is there when it has been printed. Returns "" or why it cannot.
std::string open_log(const std::string& folder) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    const std::string path = fmt::format("{}/rank-{}.log", folder, routes_rank);
    std::FILE* const file = problem ? nullptr : settings::open_to_write(path);
    if (file == nullptr)
        return fmt::format("{}: {}", problem ? folder : path, problem ? problem.message() : std::strerror(errno));
    std::setvbuf(file, nullptr, _IOLBF, BUFSIZ);
    routes_file = file;
    return {};
}

std::string describe_comm(MPI_Comm comm) {
    int size = 0;
    real::Comm_size(comm, &size);
    return fmt::format("{} ({} rank{})", call::comm_name(comm), size, size == 1 ? "" : "s");
}

}  // namespace

std::string start_routes(settings::DebugLines lines, const std::string& folder) {
    const bool wanted = lines != settings::DebugLines::kNone;
    staged_alone = lines == settings::DebugLines::kStaged;
    real::Comm_rank(MPI_COMM_WORLD, &routes_rank);
    std::string problem;
    if (wanted)
        routes_file = stderr;
    if (wanted && !folder.empty())
        problem = open_log(folder);
    ranges::start();
    tells_routes = wanted || ranges::on;
    return problem;
}

void stop_routes() {
    tells_routes = false;
    ranges::stop();
}

std::string_view place_of(const Owner& owner) {
    if (routes_file == nullptr && !trace::on)
        return {};
    static std::mutex mutex;
    static auto* const places = new std::unordered_set<std::string>;  // never destroyed: lines refer to its texts
    std::string text;
    if (owner.kind == Owner::Kind::kComm && owner.comm != MPI_COMM_NULL)
        text = describe_comm(owner.comm);
    else if (owner.kind == Owner::Kind::kFile)
        text = "a file";
    const std::scoped_lock lock(mutex);
    return *places->insert(std::move(text)).first;
}

void print_route(CallId call, std::string_view place, std::size_t bytes, Carrier carrier, Reason reason) {
    if (carrier == Carrier::kHost || routes_file == nullptr || (staged_alone && carrier != Carrier::kStaged))
        return;
    const std::string why = reason == Reason::kNone ? "" : fmt::format(" ({}: {})", name(reason), explain(reason));
    const std::string line =
        fmt::format("{}rank {}: {}{}{}, {} bytes: {}{}\n", routes_file == stderr ? "switchyard: " : "", routes_rank,
                    name(call), place.empty() ? "" : " on ", place, bytes, name(carrier), why);
    std::fputs(line.c_str(), routes_file);
}

}  // namespace swy::report
