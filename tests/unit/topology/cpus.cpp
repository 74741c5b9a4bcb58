// Sets of processing units as text.
#include "topology/cpus.hpp"

#include <gtest/gtest.h>

namespace swy::topology {
namespace {

Cpus cpus(std::string_view text) {
    Cpus made;
    EXPECT_TRUE(Cpus::parse(text, made)) << text;
    return made;
}

TEST(Cpu_sets, Are_written_as_they_are_read) {
    for (const char* text : {"0", "0-5,48-53", "7,9,11", "63-64", "0-255", "1000"})
        EXPECT_EQ(cpus(text).text(), text);
    EXPECT_EQ(cpus("3,1-2,2").text(), "1-3");
    EXPECT_EQ(Cpus().text(), "");
}

TEST(Cpu_sets, Refuse_what_is_no_list) {
    for (const char* text : {"", "-", "a", "1-", "-1", "3-1", "1,,2", "1;2", " 1", "1 ", "99999999999", "0-1048576"}) {
        Cpus ignored;
        EXPECT_FALSE(Cpus::parse(text, ignored)) << text;
    }
}

TEST(Cpu_sets, Know_what_they_have_in_common) {
    EXPECT_TRUE(cpus("0-5,100").overlaps(cpus("100-200")));
    EXPECT_FALSE(cpus("0-5,100").overlaps(cpus("6-99")));
    EXPECT_FALSE(Cpus().overlaps(cpus("0")));
    EXPECT_TRUE(cpus("0-127").contains(cpus("5,90")));
    EXPECT_FALSE(cpus("0-63").contains(cpus("5,90")));
    EXPECT_TRUE(cpus("1").contains(Cpus()));
}

TEST(Cpu_sets, Name_what_this_process_may_run_on) {
    EXPECT_FALSE(own_binding().empty());
}

}  // namespace
}  // namespace swy::topology
