// Two ranks under mpirun, as `switchyard run` would start a program of the user's.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/bounded_run.hpp"
#include "cli/checks.hpp"
#include "report/summary.hpp"

namespace swy::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kInRanks = "in-ranks";
constexpr const char* kExchangeCheck = "exchange";
constexpr const char* kOneGpuEach = "one-gpu-each";

struct Account {  // of one rank
    std::string host, switchyard, device, driver;
    bool right = false;
};

std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::vector<Account> read_accounts(const fs::path& path) {
    std::vector<Account> accounts;
    const nlohmann::json all = nlohmann::json::parse(content(path), nullptr, false);
    for (const nlohmann::json& one : all.is_array() ? all : nlohmann::json::array())
        accounts.push_back({one.value("host", ""), one.value("switchyard", ""), one.value("device", ""),
                            one.value("driver", ""), one.value("right", false)});
    return accounts;
}

Launch two_ranks(const Patient& patient, const Folder& folder) {
    Wishes wishes;
    wishes.mpirun = patient.mpirun;
    wishes.shim = patient.found.switchyard.file;
    wishes.settings = {{"SWITCHYARD_REPORT", "json:" + (folder.path / "report").string()}};
    wishes.mpirun_options = {"-n", "2"};
    wishes.program = {patient.found.paths.exchange->string(), (folder.path / "accounts").string()};
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (const std::size_t equals = text.find('='); equals != std::string::npos && equals + 1 < text.size())
            environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    Launch launch = make_launch(wishes, environment);
    // This machine may have fewer cores than two ranks need, and mpirun refuses root unless it is told to allow it.
    for (const auto& [name, value] :
         {std::pair("OMPI_MCA_rmaps_base_oversubscribe", "1"),
          std::pair("PRTE_MCA_rmaps_default_mapping_policy", ":OVERSUBSCRIBE"),
          std::pair("OMPI_ALLOW_RUN_AS_ROOT", "1"), std::pair("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
          std::pair("PRTE_ALLOW_RUN_AS_ROOT", "1"), std::pair("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")})
        if (std::getenv(name) == nullptr)
            launch.added.emplace_back(name, value);
    return launch;
}

Check failed(const Ended& ended, const Launch& launch, double seconds) {
    if (ended.late)
        return {kExchangeCheck, Health::kProblem, fmt::format("two ranks did not finish in {} s", seconds),
                "Ranks that cannot reach each other wait for ever: name the network to use "
                "(OMPI_MCA_btl_tcp_if_include=eth0, NCCL_SOCKET_IFNAME=eth0), open the firewall between them, or run "
                "this line by hand: " +
                    shell_line(launch)};
    return {kExchangeCheck, Health::kProblem,
            fmt::format("two ranks ended with status {}:\n{}", ended.status, ended.output),
            "mpirun's output above has the cause; this line repeats it: " + shell_line(launch)};
}

Check in_ranks(const std::vector<Account>& accounts, const Patient& patient) {
    std::error_code ignored;
    for (std::size_t rank = 0; rank < accounts.size(); ++rank) {
        const std::string& shim = accounts[rank].switchyard;
        if (shim.empty())
            return {kInRanks, Health::kProblem,
                    fmt::format("rank {} on {} does not have Switchyard, although LD_PRELOAD names it", rank,
                                accounts[rank].host),
                    "The library has to be at the same path on every node; LD_PRELOAD has no effect on programs that "
                    "run as another user (setuid) or that change it themselves."};
        if (!fs::equivalent(shim, patient.found.switchyard.file, ignored))
            return {kInRanks, Health::kProblem,
                    fmt::format("rank {} on {} has another Switchyard: {}", rank, accounts[rank].host, shim),
                    "Unset LD_PRELOAD, or start the switchyard command that belongs to that library."};
    }
    return {kInRanks, Health::kGood, "LD_PRELOAD is in effect in both ranks", ""};
}

// Returns the transport of each call.
std::string transports(const report::Summary& summary) {
    std::string text;
    for (const report::Line& line : summary.lines) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", line.call, name(line.carrier));
        if (line.reason != Reason::kNone)
            text += fmt::format(" ({})", name(line.reason));
    }
    return text;
}

// Returns what the ranks printed of NCCL's failure, in one line.
std::string words_on_nccl(const std::string& output) {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);)
        if (line.find("switchyard: ") == 0 && line.find(" failed: nccl") != std::string::npos)
            return line;
    return std::string(explain(Reason::kNcclFailed));
}

Check exchanged(const std::vector<Account>& accounts, const fs::path& report_file, const std::string& output) {
    for (std::size_t rank = 0; rank < accounts.size(); ++rank) {
        if (!accounts[rank].driver.empty())
            return {kExchangeCheck, Health::kProblem, fmt::format("rank {}: {}", rank, accounts[rank].driver),
                    "nvidia-smi shows the state of the GPUs and who uses them."};
        if (!accounts[rank].right)
            return {kExchangeCheck, Health::kProblem, fmt::format("rank {} received wrong data", rank),
                    "Report this with the output of switchyard info."};
    }
    report::Summary summary;
    if (!report::from_json(content(report_file), summary).empty())
        summary = {};
    const bool device = !accounts[0].device.empty();
    const std::string seen =
        fmt::format("1 MiB of {} memory each way and summed: {}", device ? "device" : "host", transports(summary));
    for (const report::Line& line : summary.lines)
        if (line.reason == Reason::kNcclFailed)
            return {kExchangeCheck, Health::kProblem, seen + "\n" + words_on_nccl(output),
                    "Run switchyard doctor with NCCL_DEBUG=WARN in the environment: NCCL then names the cause. Virtual "
                    "GPUs need the libnccl.so.2 of their own folder, which the nccl line above names if it is found."};
    return {kExchangeCheck, Health::kGood, seen, ""};
}

Check one_gpu_each(const std::vector<Account>& accounts) {
    const Account &first = accounts[0], &second = accounts[1];
    if (first.device.empty() || second.device.empty())
        return {kOneGpuEach, Health::kGood, "no GPU is used", ""};
    if (first.host != second.host || first.device != second.device)
        return {kOneGpuEach, Health::kGood, "each rank has a GPU of its own", ""};
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return {kOneGpuEach, Health::kNote,
            fmt::format("both ranks use one GPU{}, which NCCL takes at most from 2.30 on: else large messages go by "
                        "peer, and collectives are staged through host memory",
                        visible != nullptr ? fmt::format(" (CUDA_VISIBLE_DEVICES is {})", visible) : ""),
            "Start no more ranks on a node than it has GPUs, and show each its own: switchyard run --gpus near."};
}

}  // namespace

std::vector<Check> check_ranks(const Patient& patient) {
    const InstallPaths& paths = patient.found.paths;
    if (!paths.exchange || !paths.shim || patient.mpirun.empty() || !can_be_preloaded(paths.shim->string()))
        return {{kExchangeCheck, Health::kNote, "two ranks were not started",
                 paths.exchange ? "Solve the problems above first."
                                : "switchyard-exchange is not at " + paths.expected_exchange.string() + "."}};
    const Folder folder("switchyard-doctor");
    if (folder.path.empty())
        return {{kExchangeCheck, Health::kProblem, "no folder for temporary files can be made",
                 "TMPDIR names a place for them."}};
    const Launch launch = two_ranks(patient, folder);
    const Ended ended = run_bounded(launch, patient.seconds);
    const std::vector<Account> accounts = read_accounts(folder.path / "accounts");
    if (ended.late || ended.status != 0 || accounts.size() != 2)
        return {failed(ended, launch, patient.seconds)};
    return {in_ranks(accounts, patient), exchanged(accounts, folder.path / "report", ended.output),
            one_gpu_each(accounts)};
}

}  // namespace swy::cli
