// Where NCCL begins to be faster in what was measured, and which tuning files are taken.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/tune_table.hpp"
#include "settings/tuning_file.hpp"

namespace {

using swy::cli::Points;
using namespace swy::settings;

TEST(Crossing, Is_the_least_size_from_which_on_nccl_is_faster_for_all_larger_ones) {
    const auto crossing_of = [](std::initializer_list<std::pair<double, double>> times) {
        Points points;
        std::size_t bytes = 1024;
        for (const auto& [staged, nccl] : times) {
            points[bytes] = {staged, nccl};
            bytes *= 2;
        }
        return swy::cli::crossing(points);
    };
    EXPECT_EQ(crossing_of({{1, 3}, {2, 3}, {4, 3}, {8, 4}}), 4096u);
    EXPECT_EQ(crossing_of({{4, 3}, {4, 3}}), 1024u) << "faster from the start";
    EXPECT_EQ(crossing_of({{1, 3}, {2, 3}}), kNever);
    EXPECT_EQ(crossing_of({{4, 3}, {2, 3}, {4, 3}}), 4096u) << "once slower again: only what comes after counts";
    EXPECT_EQ(crossing_of({{4, 3}, {4, 3}, {3, 3}}), kNever) << "as fast is not faster";
    EXPECT_EQ(crossing_of({{4, 3}, {4, 0}, {4, 3}}), 4096u) << "0 is no time";
    EXPECT_EQ(crossing_of({}), kNever);
}

swy::cli::Measurements measurements() {
    swy::cli::Measurements all;
    all.machine = {"A GPU", "2.28.9", "here", 4, 2, false};
    all.calls["MPI_Gather"] = {{1024, {2e-6, 3e-6}}, {2048, {5e-6, 3e-6}}};
    all.calls["MPI_Bcast"] = {{1024, {2e-6, 3e-6}}};
    return all;
}

TEST(Tuning_file, That_is_written_is_read_as_it_was_meant) {
    TuningFile file;
    ASSERT_EQ(parse_tuning("t.json", swy::cli::tuning_json(measurements()), file), "");
    EXPECT_EQ(file.gpu, "A GPU");
    EXPECT_EQ(file.nccl, "2.28.9");
    EXPECT_EQ(file.ranks, 4);
    EXPECT_EQ(file.nodes, 2);
    EXPECT_FALSE(file.is_virtual);
    std::map<std::string, std::size_t> thresholds;
    for (const TunedCall& call : file.calls)
        thresholds[call.name] = call.threshold;
    const std::map<std::string, std::size_t> meant = {
        {"MPI_Gather", 2048}, {"MPI_Gatherv", 2048}, {"MPI_Bcast", kNever}};
    EXPECT_EQ(thresholds, meant);
}

TEST(Tuning_file, With_more_names_than_are_known_is_taken_and_with_less_refused) {
    auto json = nlohmann::json::parse(swy::cli::tuning_json(measurements()));
    TuningFile file;
    json["remark"] = "of mine";
    EXPECT_EQ(parse_tuning("t.json", json.dump(), file), "");
    for (const char* name : {"switchyard_tuning", "gpu", "nccl", "ranks", "nodes", "virtual", "thresholds"}) {
        auto less = json;
        less.erase(name);
        const std::string told = parse_tuning("t.json", less.dump(), file);
        EXPECT_NE(told.find("\"" + std::string(name) + "\""), std::string::npos) << told;
        EXPECT_NE(told.find("is missing"), std::string::npos) << told;
    }
    for (const char* text : {"", "[]", "{", "{}", "null", "\x80"})
        EXPECT_EQ(parse_tuning("t.json", text, file).rfind("t.json:1: ", 0), 0u) << text;
}

TEST(Tuning_file, Names_versions_and_calls_that_there_are) {
    EXPECT_EQ(nccl_code("2.28.9"), 22809);
    for (const char* text : {"", "2.28", "2.28.9.1", "two", "2.28.9-1"})
        EXPECT_EQ(nccl_code(text), 0) << text;
    EXPECT_TRUE(can_be_tuned("MPI_Allreduce"));
    EXPECT_TRUE(can_be_tuned("MPI_Alltoallw"));
    for (const char* name : {"MPI_Iallreduce", "MPI_Send", "MPI_Pack", "MPI_Barrier", "Allreduce", ""})
        EXPECT_FALSE(can_be_tuned(name)) << name;
}

}  // namespace
