#include "base/utf8.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    utf8_append(text, c);
    const CodePoint decoded = utf8_decode(text);
    ASSERT_EQ(decoded.value, c);
    ASSERT_EQ(decoded.length, text.size());
    for (size_t n = 1; n < text.size(); ++n)
      ASSERT_TRUE(utf8_is_incomplete_prefix(text.substr(0, n)));
  }
}

TEST(Utf8, IllFormedIsRefused) {
  for (const char* text :
       {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xFF", "\xE0\x9F\xBF"}) {
    EXPECT_EQ(utf8_sequence_length(text), 0u) << text;
    EXPECT_FALSE(utf8_is_valid(text));
  }
  EXPECT_FALSE(utf8_is_incomplete_prefix("\xED\xA0"));
  EXPECT_FALSE(utf8_is_incomplete_prefix(""));
}

// Expected values from Python: bytes.decode("utf-8", errors="replace").
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(utf8_replace_invalid("a\xE4\xBD z"), "a" + mark + " z");
  EXPECT_EQ(utf8_replace_invalid("\xF0\x9F\x98"), mark);
  EXPECT_EQ(utf8_replace_invalid("\xED\xA0\x80"), mark + mark + mark);
  EXPECT_EQ(utf8_replace_invalid("\xC0\xAF"), mark + mark);
  EXPECT_EQ(utf8_replace_invalid("\xE4\xBD\xA0"), "\xE4\xBD\xA0");
}

}  // namespace
}  // namespace tandem
