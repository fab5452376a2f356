#include "system/cpu_set.h"

#include <gtest/gtest.h>

namespace tandem::system {
namespace {

TEST(CpuSet, ParsesAndPrintsLists) {
  const auto set = CpuSet::parse(" 8,0-3,2\n");
  ASSERT_TRUE(set);
  EXPECT_EQ(set->cpus(), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(set->to_string(), "0-3,8");
  EXPECT_EQ(CpuSet({5, 4, 5, 9}).to_string(), "4-5,9");
  EXPECT_TRUE(CpuSet::parse("")->empty());
  EXPECT_EQ(CpuSet().to_string(), "");
}

TEST(CpuSet, RefusesWhatIsNotAList) {
  for (const char* text :
       {",", "1,", "a", "1-", "-1", "3-1", "1--2", "8192", "0-99999999999", "1 2", "0x1", "1-2-3"})
    EXPECT_FALSE(CpuSet::parse(text)) << text;
}

TEST(CpuSet, CombinesSets) {
  const CpuSet a({0, 1, 2, 3});
  const CpuSet b({2, 3, 4});
  EXPECT_EQ(a.intersect(b), CpuSet({2, 3}));
  EXPECT_EQ(a.unite(b), CpuSet({0, 1, 2, 3, 4}));
  EXPECT_TRUE(a.contains(3));
  EXPECT_FALSE(a.contains(4));
  EXPECT_TRUE(a.contains(CpuSet({1, 2})));
  EXPECT_FALSE(a.contains(b));
}

}  // namespace
}  // namespace tandem::system
