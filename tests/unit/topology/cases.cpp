// Each line of tests/topology/cases.tsv, and of recorded machines where they are present, is what must be chosen.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "read_cases.hpp"
#include "topology/lists.hpp"

namespace swy::topology {
namespace {

namespace fs = std::filesystem;

std::string joined(const std::vector<Choice>& choices, auto text) {
    std::string all;
    for (const Choice& choice : choices)
        all += (&choice == choices.data() ? "" : ";") + text(choice);
    return all;
}

void check(const Case& one, const fs::path& folder) {
    SCOPED_TRACE(one.at("id") + " on " + one.at("machine") + ": " + one.at("why"));
    Machine machine;
    ASSERT_EQ(read_machine((folder / (one.at("machine") + ".xml")).string(), machine), "");
    NodeFacts facts;
    ASSERT_EQ(add_ranks({one.at("binding"), one.at("visible"), {}, std::stoi(one.at("ranks"))}, machine, facts), "");
    const std::vector<Choice> choices = choose(facts);
    EXPECT_EQ(
        joined(choices, [](const Choice& c) { return c.gpu < 0 ? std::string("none") : std::to_string(c.ordinal); }),
        one.at("expect_ordinal"));
    EXPECT_EQ(joined(choices,
                     [&](const Choice& c) {
                         return c.gpu < 0 ? std::string("unknown") : machine.gpus[static_cast<std::size_t>(c.gpu)].pci;
                     }),
              one.at("expect_pci"));
    for (const Choice& choice : choices)
        EXPECT_NE(choice.why, "");
}

TEST(Cases, Are_chosen_as_written) {
    const fs::path folder = source() / "tests/topology";
    const std::vector<Case> cases = read_cases(folder / "cases.tsv");
    EXPECT_GE(cases.size(), 20u);
    for (const Case& one : cases)
        check(one, folder);
}

TEST(Cases, On_recorded_machines_are_chosen_as_written) {
    const char* given = std::getenv("SWY_TOPOLOGIES");
    const fs::path folder = given != nullptr ? fs::path(given) : source() / "../shared/topologies";
    if (!fs::exists(folder / "scenarios.tsv"))
        GTEST_SKIP() << "no " << folder / "scenarios.tsv"
                     << " (SWY_TOPOLOGIES names the folder)";
    const std::vector<Case> cases = read_cases(folder / "scenarios.tsv");
    EXPECT_FALSE(cases.empty());
    for (const Case& one : cases)
        check(one, folder);
}

TEST(Reading, Refuses_what_is_no_topology) {
    Machine machine;
    EXPECT_NE(read_machine("/not/there.xml", machine).find("/not/there.xml"), std::string::npos);
    EXPECT_NE(read_machine((source() / "tests/topology/cases.tsv").string(), machine), "");
}

TEST(Reading, Takes_the_file_that_HWLOC_XMLFILE_names) {
    setenv("HWLOC_XMLFILE", (source() / "tests/topology/one_side.xml").c_str(), 1);
    Machine machine;
    EXPECT_EQ(read_machine("", machine), "");
    unsetenv("HWLOC_XMLFILE");
    ASSERT_EQ(machine.gpus.size(), 2u);
    EXPECT_EQ(machine.gpus[1].pci, "0000:84:00.0");
    EXPECT_EQ(machine.nics.at(0).name, "eth0");
}

TEST(Reading, Reads_this_machine) {
    Machine machine;
    EXPECT_EQ(read_machine("", machine), "");
    EXPECT_FALSE(machine.cpus.empty());
}

TEST(Lists, Say_what_is_wrong_with_them) {
    const std::string file = (source() / "tests/topology/one_side.xml").string();
    const auto problem = [&](const Lists& lists) {
        Machine machine;
        NodeFacts facts;
        EXPECT_EQ(read_machine(file, machine), "");
        return add_ranks(lists, machine, facts);
    };
    EXPECT_EQ(problem({"0-3;-", "all", {}, 2}), "");
    for (const auto& [lists, words] :
         {std::pair(Lists{"0-3;4-", "all", {}, 0}, "4-"), std::pair(Lists{"-", "0,2", {}, 0}, "GPU 2"),
          std::pair(Lists{"-", "1,1", {}, 0}, "twice"),
          std::pair(Lists{"0;1;2", "all", {}, 2}, "3 entries for 2 ranks"),
          std::pair(Lists{"0;1", "0;0;0", {}, 0}, "2 entries for 3 ranks"), std::pair(Lists{"-", "x", {}, 0}, "\"x\"")})
        EXPECT_NE(problem(lists).find(words), std::string::npos) << problem(lists);
}

}  // namespace
}  // namespace swy::topology
