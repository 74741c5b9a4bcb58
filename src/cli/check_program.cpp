// Is a program one that Switchyard can serve: which libraries would it be started with, and in which order?
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "cli/checks.hpp"
#include "cli/needed.hpp"

namespace swy::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "program";
constexpr std::string_view kOurMpi = "libmpi.so.40";  // Open MPI's since 4.0
constexpr const char* kCompile = "Compile and link it with Open MPI's mpicc (or swycc).";

bool is_script(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<char, 2> start{};
    return file.read(start.data(), 2) && start[0] == '#' && start[1] == '!';
}

Check problem(const std::string& seen, const std::string& remedy) {
    return {kName, Health::kProblem, seen, remedy};
}

Check look_at_order(const Patient& patient, const std::string& program, const Needed& mpi, const Needed* shim) {
    if (shim == nullptr)
        return {kName, Health::kGood, fmt::format("{} is linked with {}", program, mpi.file), ""};
    std::error_code ignored;
    const std::string& ours = patient.found.switchyard.file;
    if (shim->file.empty())
        return problem(fmt::format("{} is linked with {}, which is not found", program, shim->name),
                       "Add its folder to LD_LIBRARY_PATH, or link the program again with swycc.");
    if (!fs::equivalent(shim->file, ours, ignored))
        return problem(
            fmt::format("{} is linked with {}, another Switchyard than this command's, {}", program, shim->file, ours),
            "Link it again with the swycc that belongs to this command, or use that Switchyard's command.");
    if (shim > &mpi)
        return problem(fmt::format("{} has libmpi before libswitchyard: its calls go past Switchyard", program),
                       "Link with swycc, or put `-Wl,--no-as-needed -lswitchyard` before -lmpi.");
    return {kName, Health::kGood, fmt::format("{} is linked with {} before {}", program, shim->file, mpi.file), ""};
}

Check look_at_libraries(const Patient& patient, const std::string& program, const std::vector<Needed>& all) {
    std::error_code ignored;
    for (const char* other : {"libmpich", "libmpi_intel", "libmpifort.so.12", "libmpi.so.12"})
        if (const Needed* mpich = find(all, other))
            return problem(fmt::format("{} is linked with {}, MPICH's or one of its kin: Switchyard works with Open "
                                       "MPI",
                                       program, mpich->file.empty() ? mpich->name : mpich->file),
                           kCompile);
    const Needed* mpi = find(all, "libmpi.so");
    if (mpi == nullptr)
        return {kName, Health::kNote, fmt::format("{} is linked with no MPI", program),
                "If it loads one later (as Python does) all is well; else it makes no MPI calls."};
    if (mpi->file.empty())
        return problem(fmt::format("{} needs {}, which is not found", program, mpi->name),
                       "Add the folder of that library to LD_LIBRARY_PATH.");
    if (mpi->name != kOurMpi)
        return problem(
            fmt::format("{} is linked with {}: Switchyard works with Open MPI's {}", program, mpi->file, kOurMpi),
            kCompile);
    if (!patient.found.mpi.file.empty() && !fs::equivalent(mpi->file, patient.found.mpi.file, ignored))
        return problem(fmt::format("{} is linked with {}, libswitchyard with {}: two Open MPIs", program, mpi->file,
                                   patient.found.mpi.file),
                       "Use one for both: LD_LIBRARY_PATH decides, and configure's MPICC when Switchyard is built.");
    return look_at_order(patient, program, *mpi, find(all, "libswitchyard.so"));
}

// The dynamic linker passes LD_PRELOAD over for a program that gets other rights than its user has (ld.so(8),
// "secure-execution mode").
std::optional<Check> look_at_rights(const std::string& program, const std::vector<Needed>& all) {
    struct stat facts {};
    if (stat(program.c_str(), &facts) != 0 || find(all, "libswitchyard.so") != nullptr)
        return std::nullopt;
    const char* what = nullptr;
    if ((facts.st_mode & S_ISUID) != 0 && facts.st_uid != getuid())
        what = "the rights of another user (set-user-ID)";
    else if ((facts.st_mode & S_ISGID) != 0 && facts.st_gid != getgid())
        what = "the rights of another group (set-group-ID)";
    else if (getuid() != 0 && getxattr(program.c_str(), "security.capability", nullptr, 0) > 0)
        what = "capabilities (setcap)";
    if (what == nullptr)
        return std::nullopt;
    return problem(fmt::format("{} gets {}, so LD_PRELOAD has no effect on it", program, what),
                   "Link it with swycc, or take the rights away (chmod ug-s, setcap -r).");
}

// The dynamic linker does not start a program unless it finds all of its libraries.
Check look_for_all(const Patient& patient, const std::string& program, const std::vector<Needed>& all) {
    Check check = look_at_libraries(patient, program, all);
    const auto missing = std::find_if(all.begin(), all.end(), [](const Needed& one) { return one.file.empty(); });
    if (check.health == Health::kProblem || missing == all.end())
        return check;
    return problem(fmt::format("{} needs {}, which is not found: it does not start", program, missing->name),
                   missing->name.starts_with("libcu") || missing->name.starts_with("libnccl")
                       ? "Add the folder of that library to LD_LIBRARY_PATH; without GPUs: --virtual-gpus 2, which has "
                         "libcuda.so.1, libcudart.so.12, libcudart.so.13 and libnccl.so.2."
                       : "Add the folder of that library to LD_LIBRARY_PATH.");
}

}  // namespace

std::vector<Check> check_program(const Patient& patient) {
    fs::path path;
    if (find_program(patient.program, path) == Found::kNo)
        return {problem(patient.program + " is not there", "For one in this folder: ./" + patient.program)};
    if (is_script(path))
        return {{kName, Health::kNote, path.string() + " is a script",
                 "Its interpreter loads MPI when it is needed; this check is for programs."}};
    const std::vector<Needed> all = needed_by(path.string());
    if (all.empty())
        return {problem(path.string() + " is no program of shared libraries: LD_PRELOAD has no effect on it",
                        "Link it dynamically (without -static), or with swycc.")};
    std::vector<Check> checks = {look_for_all(patient, path.string(), all)};
    if (const std::optional<Check> check = look_at_rights(path.string(), all))
        checks.push_back(*check);
    for (const auto& look : {look_for_nvidias_runtime, look_for_profilers})
        if (const std::optional<Check> check = look(patient, path.string(), all))
            checks.push_back(*check);
    return checks;
}

}  // namespace swy::cli
