#include "frontend/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::frontend {
namespace {

TEST(StopMatcher, NothingOfTheStopStringLeaks) {
  StopMatcher m({"DEFGH"}, false);
  EXPECT_EQ(m.push("ABCD").released, "ABC");
  EXPECT_EQ(m.push("EF").released, "");
  const auto end = m.push("GHIJ");
  EXPECT_EQ(end.released, "");
  EXPECT_EQ(end.matched, 0);
}

TEST(StopMatcher, FalseStartIsReleased) {
  StopMatcher m({"abX"}, false);
  EXPECT_EQ(m.push("ab").released, "");
  EXPECT_EQ(m.push("c").released, "abc");
  EXPECT_EQ(m.push("zab").released, "z");
  EXPECT_EQ(m.flush(), "ab");
}

TEST(StopMatcher, EarliestEndWinsThenListOrder) {
  EXPECT_EQ(StopMatcher({"bcd", "bc"}, false).push("abcd").matched, 1);
  EXPECT_EQ(StopMatcher({"c", "bc"}, false).push("abc").matched, 0);
  EXPECT_EQ(StopMatcher({"bc", "c"}, false).push("abc").released, "a");
  EXPECT_EQ(StopMatcher({"bc"}, true).push("abcd").released, "abc");
}

TEST(StopMatcher, UnarmedMatchesDoNotCount) {
  StopMatcher m({"x"}, false);
  EXPECT_EQ(m.push("axb", false).matched, -1);
  EXPECT_EQ(m.push("cxd").released, "c");
}

// However the text is cut, the joined output is the same.
TEST(StopMatcher, PiecesDoNotMatter) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += static_cast<char>('a' + random() % 3);
    std::vector<std::string> stops;
    for (int i = 0; i < 3; ++i) stops.push_back(text.substr(random() % 26, 2 + random() % 3));
    const auto whole = StopMatcher(stops, false).push(text);
    StopMatcher m(stops, false);
    std::string joined;
    int matched = -1;
    for (size_t at = 0; at < text.size() && matched < 0;) {
      const size_t n = 1 + random() % 5;
      const auto r = m.push(std::string_view(text).substr(at, n));
      joined += r.released;
      matched = r.matched;
      at += n;
    }
    EXPECT_EQ(joined, whole.released);
    EXPECT_EQ(matched, whole.matched);
  }
}

}  // namespace
}  // namespace tandem::frontend
