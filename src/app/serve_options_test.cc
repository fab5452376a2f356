#include "app/serve_options.h"

#include <gtest/gtest.h>

namespace tandem::app {
namespace {

TEST(ServeOptions, CountsTakeVllmsSuffixes) {
  EXPECT_EQ(parse_count("8").value(), 8);
  EXPECT_EQ(parse_count("8k").value(), 8000);
  EXPECT_EQ(parse_count("8K").value(), 8192);
  EXPECT_EQ(parse_count("2G").value(), int64_t{2} << 30);
  for (const char* text : {"", "k", "8kk", "8 k", "x", "99999999999999999999", "9999999999G"}) {
    EXPECT_FALSE(parse_count(text)) << text;
  }
}

}  // namespace
}  // namespace tandem::app
