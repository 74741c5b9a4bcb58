// The report's two faces, from a summary given here: what a person sees first, and what a machine reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/summary.hpp"

namespace {

using namespace swy;
using report::Summary;

Summary four_ranks() {
    Summary summary;
    summary.switchyard = "1.2.3";
    summary.mpi = "Open MPI v4.1.4";
    summary.nccl = "2.28.9";
    summary.driver = "13.0 (virtual)";
    summary.ranks = {{"node1", "GPU a"}, {"node1", "GPU a"}, {"node2", "GPU a"}, {"node2", ""}};
    summary.lines = {{"MPI_Bcast", Carrier::kStaged, Reason::kSmall, 4, 4096, 0.001},
                     {"MPI_Allreduce", Carrier::kNccl, Reason::kNone, 400, 400ull << 20, 8.0},
                     {"MPI_Reduce", Carrier::kStaged, Reason::kDuplicateGpu, 40, 40ull << 20, 2.0},
                     {"MPI_Gather", Carrier::kStaged, Reason::kDuplicateGpu, 10, 10ull << 20, 1.0}};
    summary.communicators = {8, 1, 3, 6};
    return summary;
}

std::size_t line_of(const std::string& text, std::string_view part) {
    const std::size_t at = text.find(part);
    return at == std::string::npos ? at
                                   : static_cast<std::size_t>(std::count(
                                         text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// The text without the breaks of its lines.
std::string on_one_line(const std::string& text) {
    std::istringstream words(text);
    std::string line, word;
    while (words >> word)
        line += (line.empty() ? "" : " ") + word;
    return line;
}

TEST(Report_text, Ranks_calls_by_time) {
    const std::string text = report::as_text(four_ranks(), {});
    EXPECT_LT(line_of(text, "MPI_Allreduce"), line_of(text, "MPI_Reduce"));
    EXPECT_LT(line_of(text, "MPI_Reduce"), line_of(text, "MPI_Gather"));
    EXPECT_LT(line_of(text, "MPI_Gather"), line_of(text, "MPI_Bcast"));
}

TEST(Report_text, Gives_operations_that_overlap_no_share_of_the_run) {
    Summary summary = four_ranks();
    summary.run.seconds = 10;
    summary.lines.push_back({"MPI_Isend", Carrier::kNccl, Reason::kNone, 64, 1 << 20, 640});
    const std::string text = report::as_text(summary, {});
    EXPECT_NE(text.find(" 20.0 %"), std::string::npos) << text;  // MPI_Allreduce: 8 s of 4 ranks
    EXPECT_EQ(text.find("1600.0 %"), std::string::npos) << text;
}

TEST(Report_text, Counts_hosts_and_devices_once) {
    EXPECT_NE(report::as_text(four_ranks(), {}).find("4 ranks on 2 hosts, 2 GPUs used by NCCL"), std::string::npos)
        << report::as_text(four_ranks(), {});
}

TEST(Report_text, Says_which_share_of_device_data_went_over_nccl) {
    // 400 of 450 MiB and 4 KiB: 88.9 %
    EXPECT_NE(report::as_text(four_ranks(), {}).find("nccl 400.0 MiB (88.9 %)"), std::string::npos)
        << report::as_text(four_ranks(), {});
}

TEST(Report_text, Advice_sums_a_reason_over_calls_and_says_what_to_do) {
    const std::string text = report::as_text(four_ranks(), {});
    EXPECT_NE(text.find("1. 50.0 MiB in 50 calls did not go over NCCL (duplicate-gpu)"), std::string::npos) << text;
    EXPECT_NE(on_one_line(text).find(remedy(Reason::kDuplicateGpu)), std::string::npos) << text;
}

TEST(Report_text, Has_advice_before_the_calls) {
    const std::string text = report::as_text(four_ranks(), {});
    EXPECT_LT(line_of(text, "Worth acting on"), line_of(text, "MPI_Allreduce")) << text;
}

TEST(Report_text, Names_the_ranks_that_share_a_gpu) {
    const std::string text = report::as_text(four_ranks(), {});
    EXPECT_NE(text.find("GPU shared by ranks 0, 1: GPU a of node1\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("of node2"), std::string::npos) << text;
}

TEST(Report_text, Shows_the_share_of_the_run) {
    Summary summary = four_ranks();
    summary.run.seconds = 10;
    summary.lines.push_back({"MPI_Waitall", Carrier::kHost, Reason::kNone, 4, 0, 6.0, {0.5, 3}, {2.5, 1}, {}});
    const std::string text = report::as_text(summary, {});
    // Of 4 times 10 seconds: 8 + 2 + 1 and a millisecond, and 6.
    EXPECT_NE(text.find("Time of a rank: calls that block 27.5 %, MPI_Wait 15.0 %\n"), std::string::npos) << text;
    EXPECT_NE(text.find("15.0 %  500.0 ms (3)   2.50 s (1)\n"), std::string::npos) << text;
}

TEST(Report_text, Leaves_out_columns_that_do_not_fit_and_breaks_lines) {
    for (std::size_t width : {70, 80, 100, 200}) {
        std::istringstream lines(report::as_text(four_ranks(), {width, false}));
        for (std::string line; std::getline(lines, line);)
            EXPECT_LE(line.size(), width) << line;
    }
}

TEST(Report_text, Gives_no_advice_where_there_is_nothing_to_change) {
    Summary summary = four_ranks();
    summary.lines.resize(2);
    const std::string text = report::as_text(summary, {});
    EXPECT_EQ(text.find("Worth acting on"), std::string::npos) << text;
    EXPECT_NE(text.find(explain(Reason::kSmall)), std::string::npos) << text;
}

TEST(Report_text, Fits_on_one_screen_however_many_calls_there_were) {
    Summary summary = four_ranks();
    for (int i = 0; i < 300; ++i)
        summary.lines.push_back(
            {"MPI_Call_number_" + std::to_string(i), Carrier::kHost, Reason::kNone, 1, 1, 1e-6 * i});
    for (int reason = 1; reason < kReasons; ++reason)
        summary.lines.push_back({"MPI_Alltoallv", Carrier::kStaged, static_cast<Reason>(reason), 1, 1, 1e-3});
    const std::string text = report::as_text(summary, {});
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 50) << text;
    EXPECT_NE(text.find("json:FILE has all"), std::string::npos);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), 132u) << line;
}

TEST(Report_text, Of_a_run_without_calls_says_so) {
    Summary summary;
    summary.ranks = {{"node1", ""}};
    const std::string text = report::as_text(summary, {});
    EXPECT_NE(text.find("1 rank on 1 host, no GPU used by NCCL"), std::string::npos) << text;
    EXPECT_NE(text.find("No call"), std::string::npos) << text;
}

TEST(Report_text, Says_what_has_cut_it_short) {
    Summary summary = four_ranks();
    EXPECT_EQ(report::as_text(summary, {}).find("Up to then"), std::string::npos);
    summary.cut_short = "SIGTERM in rank 1; 2 of 4 ranks";
    EXPECT_NE(report::as_text(summary, {}).find("\n  Up to then: SIGTERM in rank 1; 2 of 4 ranks\n"),
              std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(report::as_json(summary))["cut_short"], summary.cut_short);
}

TEST(Report_json, Has_every_line_with_the_words_of_the_vocabulary) {
    const auto report = nlohmann::json::parse(report::as_json(four_ranks()));
    ASSERT_EQ(report["calls"].size(), 4u);
    const auto& line = report["calls"][2];
    EXPECT_EQ(line["call"], "MPI_Reduce");
    EXPECT_EQ(line["carrier"], "staged");
    EXPECT_EQ(line["count"], 40);
    EXPECT_EQ(line["bytes"], 40u << 20);
    EXPECT_EQ(line["seconds"], 2.0);
    EXPECT_EQ(line["reason"], "duplicate-gpu");
}

TEST(Report_json, Has_versions_ranks_devices_and_communicators) {
    const auto report = nlohmann::json::parse(report::as_json(four_ranks()));
    EXPECT_EQ(report["versions"]["switchyard"], "1.2.3");
    EXPECT_EQ(report["versions"]["nccl"], "2.28.9");
    EXPECT_EQ(report["ranks"]["number"], 4);
    EXPECT_EQ(report["ranks"]["hosts"][2], "node2");
    EXPECT_EQ(report["devices"][0], "GPU a");
    EXPECT_TRUE(report["devices"][3].is_null());
    EXPECT_EQ(report["communicators"]["made"], 8);
    EXPECT_EQ(report["communicators"]["reused"], 1);
    EXPECT_EQ(report["communicators"]["evicted"], 3);
    EXPECT_EQ(report["communicators"]["live_max"], 6);
}

TEST(Report_json, Is_valid_for_names_that_are_not_utf8) {
    Summary summary = four_ranks();
    summary.ranks[0].host = "b\xff\"d";
    EXPECT_TRUE(nlohmann::json::accept(report::as_json(summary)));
}

}  // namespace
