#include "text/marked_text.h"

#include <gtest/gtest.h>

namespace tandem::text {
namespace {

TEST(MarkedText, AppendsAndMergesMarks) {
  MarkedText text("ab", false);
  text.append("cd", true);
  text.append("ef", true);
  text.append("", true);
  text.append("gh", false);
  EXPECT_EQ(text.text(), "abcdefgh");
  EXPECT_EQ(text.untrusted(), (std::vector<Range>{{2, 6}}));
  EXPECT_FALSE(text.touches(0, 2));
  EXPECT_TRUE(text.touches(1, 3));
  EXPECT_TRUE(text.touches(5, 7));
  EXPECT_FALSE(text.touches(6, 8));
  EXPECT_FALSE(text.touches(3, 3));
}

TEST(MarkedText, SlicesKeepTheirMarks) {
  const MarkedText text("0123456789", {{1, 3}, {5, 9}});
  EXPECT_EQ(text.slice(2, 6), MarkedText("2345", {{0, 1}, {3, 4}}));
  EXPECT_EQ(text.slice(3, 5), MarkedText("34", false));
  EXPECT_EQ(text.slice(5, 9), MarkedText("5678", true));
  MarkedText joined("<", false);
  joined.append(text, 0, 10);
  joined.append(MarkedText("!", true));
  EXPECT_EQ(joined.untrusted(), (std::vector<Range>{{2, 4}, {6, 10}, {11, 12}}));
}

TEST(MarkedText, AdjacentRangesAreOne) {
  EXPECT_EQ(MarkedText("abcd", {{0, 2}, {2, 2}, {2, 4}}).untrusted(), (std::vector<Range>{{0, 4}}));
}

}  // namespace
}  // namespace tandem::text
