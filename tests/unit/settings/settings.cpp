// The promises of the SWITCHYARD_* variables: what is accepted, what is refused and in which words, and what travels
// between ranks.
#include "settings/settings.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <set>

#include "settings/parse.hpp"

namespace {

using namespace swy::settings;

class Settings : public testing::Test {
  protected:
    void SetUp() override {
        for (const Row& row : table())
            unsetenv(std::string(row.name).c_str());
    }
    void TearDown() override {
        SetUp();
        for (const char* name : {"SWITCHYARD_NCL_THRESHOLD", "SWITCHYARD_AGRE"})
            unsetenv(name);
        install(Values(), false);
    }
    static std::string value_of(std::string_view name, std::string Shown::*field = &Shown::value) {
        for (const Shown& shown : show()) {
            if (shown.name == name)
                return shown.*field;
        }
        return "not in the table";
    }
};

TEST_F(Settings, Defaults_in_the_table_are_the_defaults_in_force) {
    for (const Row& row : table())
        EXPECT_EQ(value_of(row.name), row.default_value) << row.name;
}

TEST_F(Settings, Every_default_is_accepted_as_a_value_and_changes_nothing) {
    for (const Row& row : table())
        setenv(std::string(row.name).c_str(), std::string(row.default_value).c_str(), 1);
    Values values;
    EXPECT_EQ(read(values), "");
    EXPECT_EQ(differs(values, Values()), "");
    EXPECT_EQ(values.nccl_library, "");
}

TEST_F(Settings, Every_row_has_a_meaning_and_a_name_of_its_own) {
    std::set<std::string_view> names;
    for (const Row& row : table()) {
        EXPECT_TRUE(row.name == "SWITCHYARD" || row.name.starts_with("SWITCHYARD_")) << row.name;
        EXPECT_TRUE(row.meaning.ends_with('.')) << row.name;
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
    }
}

TEST_F(Settings, Values_are_read_from_the_environment) {
    setenv("SWITCHYARD", "no", 1);
    setenv("SWITCHYARD_NCCL_THRESHOLD", "2M", 1);
    setenv("SWITCHYARD_AGREE", "mpi", 1);
    setenv("SWITCHYARD_SYNC", "device", 1);
    setenv("SWITCHYARD_TIMEOUT", "2.5", 1);
    setenv("SWITCHYARD_COMM_CACHE", "0", 1);
    setenv("SWITCHYARD_REPORT", "json:/tmp/a b:c.json", 1);
    setenv("SWITCHYARD_NCCL_LIBRARY", "/opt/nccl/libnccl.so.2", 1);
    Values values;
    ASSERT_EQ(read(values), "");
    EXPECT_FALSE(values.enabled);
    EXPECT_EQ(values.nccl_threshold, 2u * 1024 * 1024);
    EXPECT_EQ(values.agree, Agree::kMpi);
    EXPECT_EQ(values.sync, Sync::kDevice);
    EXPECT_EQ(values.timeout, 2.5);
    EXPECT_EQ(values.comm_cache, 0);
    EXPECT_EQ(values.report, ReportTo::kJson);
    EXPECT_EQ(values.report_file, "/tmp/a b:c.json");
    EXPECT_EQ(values.nccl_library, "/opt/nccl/libnccl.so.2");
}

TEST_F(Settings, A_bad_value_is_named_with_its_variable_and_what_is_allowed) {
    setenv("SWITCHYARD_AGREE", "maybe", 1);
    Values values;
    const std::string problem = read(values);
    for (const char* part : {"SWITCHYARD_AGREE", "maybe", "full or mpi"})
        EXPECT_NE(problem.find(part), std::string::npos) << problem;
    EXPECT_EQ(values.agree, Agree::kFull);
}

TEST_F(Settings, All_problems_are_told_one_a_line_and_valid_values_are_taken) {
    setenv("SWITCHYARD_TIMEOUT", "-1", 1);
    setenv("SWITCHYARD_REPORT", "json:", 1);
    setenv("SWITCHYARD_NCCL", "off", 1);
    Values values;
    const std::string problems = read(values);
    EXPECT_EQ(std::count(problems.begin(), problems.end(), '\n'), 1) << problems;
    EXPECT_EQ(values.nccl, Nccl::kNo);
}

TEST_F(Settings, Lines_are_of_all_calls_or_of_staged_ones_and_go_to_standard_error_or_a_folder) {
    struct {
        const char* text;
        DebugLines lines;
        const char* folder;
    } const rows[] = {{"0", DebugLines::kNone, ""},
                      {"yes", DebugLines::kAll, ""},
                      {"staged", DebugLines::kStaged, ""},
                      {"/tmp/a:b", DebugLines::kAll, "/tmp/a:b"},
                      {"./staged", DebugLines::kAll, "./staged"},
                      {"staged:/tmp/a:b", DebugLines::kStaged, "/tmp/a:b"}};
    for (const auto& row : rows) {
        setenv("SWITCHYARD_DEBUG", row.text, 1);
        Values values;
        EXPECT_EQ(read(values), "");
        EXPECT_EQ(values.debug, row.lines) << row.text;
        EXPECT_EQ(values.debug_folder, row.folder) << row.text;
    }
    setenv("SWITCHYARD_DEBUG", "staged:", 1);
    Values values;
    EXPECT_NE(read(values).find("staged:FOLDER"), std::string::npos);
}

TEST_F(Settings, A_report_may_have_a_width_and_colour) {
    struct {
        const char* text;
        std::size_t columns;
        bool colour;
    } const rows[] = {{"1", 0, false}, {"text", 0, false}, {"text:72", 72, false}, {"text:140:colour", 140, true}};
    for (const auto& row : rows) {
        setenv("SWITCHYARD_REPORT", row.text, 1);
        Values values;
        EXPECT_EQ(read(values), "") << row.text;
        EXPECT_EQ(values.report, ReportTo::kText) << row.text;
        EXPECT_EQ(values.report_columns, row.columns) << row.text;
        EXPECT_EQ(values.report_colour, row.colour) << row.text;
    }
    for (const char* bad : {"text:", "text:0", "text:wide", "text:80:color"}) {
        setenv("SWITCHYARD_REPORT", bad, 1);
        Values values;
        EXPECT_NE(read(values).find("text:COLUMNS"), std::string::npos) << bad;
    }
}

TEST_F(Settings, NCCL_can_be_required) {
    setenv("SWITCHYARD_NCCL", "require", 1);
    Values values;
    EXPECT_EQ(read(values), "");
    EXPECT_EQ(values.nccl, Nccl::kRequired);
    setenv("SWITCHYARD_NCCL", "On", 1);
    EXPECT_EQ(read(values), "");
    EXPECT_EQ(values.nccl, Nccl::kYes);
    setenv("SWITCHYARD_NCCL", "required", 1);
    EXPECT_NE(read(values).find("yes, no or require"), std::string::npos);
}

TEST_F(Settings, An_unknown_variable_is_told_with_the_nearest_name) {
    setenv("SWITCHYARD_AGRE", "full", 1);
    setenv("SWITCHYARD_NCL_THRESHOLD", "1M", 1);
    Values values;
    const std::string problems = read(values);
    EXPECT_NE(problems.find("SWITCHYARD_AGRE is not a setting of Switchyard; the nearest one is SWITCHYARD_AGREE"),
              std::string::npos)
        << problems;
    EXPECT_NE(problems.find("SWITCHYARD_NCCL_THRESHOLD"), std::string::npos) << problems;
}

TEST_F(Settings, An_old_name_is_understood_and_told) {
    setenv("SWITCHYARD_P2P_LANES", "3", 1);
    Values values;
    EXPECT_EQ(read(values), "");
    EXPECT_EQ(values.p2p_pair_comms, 3);
    EXPECT_EQ(value_of("SWITCHYARD_P2P_PAIR_COMMS", &Shown::origin), "environment");
    EXPECT_NE(old_names().find("SWITCHYARD_P2P_LANES is called SWITCHYARD_P2P_PAIR_COMMS now"), std::string::npos);
    setenv("SWITCHYARD_P2P_PAIR_COMMS", "5", 1);
    EXPECT_EQ(read(values), "");
    EXPECT_EQ(values.p2p_pair_comms, 5);
    unsetenv("SWITCHYARD_P2P_LANES");
    EXPECT_EQ(old_names(), "");
}

TEST_F(Settings, A_variable_set_to_nothing_counts_as_not_set) {
    setenv("SWITCHYARD_AGREE", "", 1);
    Values values;
    EXPECT_EQ(read(values), "");
    EXPECT_EQ(value_of("SWITCHYARD_AGREE", &Shown::origin), "default");
}

TEST_F(Settings, Origins_tell_environment_default_and_rank_0) {
    setenv("SWITCHYARD_AGREE", "mpi", 1);
    setenv("SWITCHYARD_SYNC", "none", 1);
    Values values;
    ASSERT_EQ(read(values), "");
    values.nccl_threshold = 1;  // as rank 0 has it
    install(values, true);
    EXPECT_EQ(value_of("SWITCHYARD_AGREE", &Shown::origin), "environment");
    EXPECT_EQ(value_of("SWITCHYARD_SYNC", &Shown::origin), "environment");
    EXPECT_EQ(value_of("SWITCHYARD_NCCL_THRESHOLD", &Shown::origin), "rank 0");
    EXPECT_EQ(value_of("SWITCHYARD_NCCL", &Shown::origin), "default");
}

TEST_F(Settings, What_ranks_agree_on_travels_and_the_rest_stays) {
    Values first;
    first.enabled = false;
    first.nccl = Nccl::kRequired;
    first.nccl_threshold = 12345;
    first.agree = Agree::kMpi;
    first.timeout = 0.25;
    first.cuda_aware_mpi = true;
    first.comm_cache = 3;
    first.sync = Sync::kNone;
    first.pinned_pool = 1;
    Values mine;
    mine.nccl_library = "mine";
    ASSERT_TRUE(unpack_agreed(pack_agreed(first), mine));
    EXPECT_FALSE(mine.enabled);
    EXPECT_EQ(mine.nccl, Nccl::kRequired);
    EXPECT_EQ(mine.nccl_threshold, 12345u);
    EXPECT_EQ(mine.agree, Agree::kMpi);
    EXPECT_EQ(mine.timeout, 0.25);
    EXPECT_TRUE(mine.cuda_aware_mpi);
    EXPECT_EQ(mine.comm_cache, 3);
    EXPECT_EQ(mine.sync, Sync::kMemops);
    EXPECT_EQ(mine.pinned_pool, 512u << 20);
    EXPECT_EQ(mine.nccl_library, "mine");
    EXPECT_EQ(differs(mine, first), "");
}

TEST_F(Settings, Bytes_of_another_version_are_refused_and_change_nothing) {
    Values mine;
    std::vector<std::byte> bytes = pack_agreed(Values());
    bytes[0] ^= std::byte{1};
    EXPECT_FALSE(unpack_agreed(bytes, mine));
    bytes = pack_agreed(Values());
    bytes.pop_back();
    EXPECT_FALSE(unpack_agreed(bytes, mine));
    EXPECT_EQ(differs(mine, Values()), "");
}

TEST_F(Settings, A_difference_between_ranks_names_the_setting_and_both_values) {
    Values mine;
    Values first;
    first.nccl_threshold = 1 << 20;
    mine.sync = Sync::kNone;  // each rank's own: no difference
    EXPECT_EQ(differs(mine, first), "SWITCHYARD_NCCL_THRESHOLD (64K here, 1M on rank 0)");
}

TEST(Sizes, Are_bytes_or_powers_of_1024) {
    const std::pair<const char*, std::size_t> good[] = {{"0", 0},          {"1000", 1000},     {"64K", 65536},
                                                        {"64k", 65536},    {"1MiB", 1u << 20}, {"3G", 3ull << 30},
                                                        {"2T", 2ull << 40}};
    for (const auto& [text, expected] : good) {
        std::size_t value = 1;
        EXPECT_TRUE(parse_size(text, value)) << text;
        EXPECT_EQ(value, expected) << text;
    }
    for (const char* text :
         {"", "K", "-1", "1.5M", "64KB", "64 K", "1X", "99999999999999999999", "99999999T", "+1", "0x10"}) {
        std::size_t value = 7;
        EXPECT_FALSE(parse_size(text, value)) << text;
        EXPECT_EQ(value, 7u) << text;
    }
}

TEST(Sizes, Print_as_they_are_read) {
    for (std::size_t bytes :
         {std::size_t{0}, std::size_t{1000}, std::size_t{65536}, std::size_t{1} << 40, std::size_t{3} << 41}) {
        std::size_t back = 1;
        EXPECT_TRUE(parse_size(print_size(bytes), back)) << print_size(bytes);
        EXPECT_EQ(back, bytes);
    }
    EXPECT_EQ(print_size(65536), "64K");
}

TEST(Seconds, Are_finite_and_not_negative) {
    double value = 0;
    EXPECT_TRUE(parse_seconds("0.5", value));
    EXPECT_EQ(value, 0.5);
    EXPECT_TRUE(parse_seconds("30s", value));
    EXPECT_EQ(value, 30);
    for (const char* text : {"", "s", "-1", "inf", "nan", "5m", "1,5"})
        EXPECT_FALSE(parse_seconds(text, value)) << text;
}

TEST(Booleans, Have_their_usual_words) {
    for (const auto& [text, expected] : {std::pair("1", true),
                                         {"YES", true},
                                         {"on", true},
                                         {"True", true},
                                         {"0", false},
                                         {"no", false},
                                         {"Off", false}}) {
        bool value = !expected;
        EXPECT_TRUE(parse_bool(text, value)) << text;
        EXPECT_EQ(value, expected) << text;
    }
    bool value = true;
    for (const char* text : {"", "2", "y", "enable"})
        EXPECT_FALSE(parse_bool(text, value)) << text;
}

TEST(Edit_distance, Counts_insertions_deletions_replacements_and_swaps) {
    EXPECT_EQ(edit_distance("", "abc"), 3u);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
    EXPECT_EQ(edit_distance("AGREE", "ARGEE"), 1u);
    EXPECT_EQ(edit_distance("same", "same"), 0u);
}

}  // namespace
