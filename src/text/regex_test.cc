#include "text/regex.h"

#include <gtest/gtest.h>

#include "text/regex_pattern.h"

namespace tandem::text {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view subject) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << (regex ? "" : regex.error().message);
  std::vector<std::string> out;
  RegexScratch scratch;
  for (size_t at = 0; regex && at < subject.size();) {
    const Range range = regex->find(subject, at, scratch).value();
    if (!Regex::found(range) || range.begin == range.end) break;
    out.emplace_back(subject.substr(range.begin, range.end - range.begin));
    at = range.end;
  }
  return out;
}

using Strings = std::vector<std::string>;

TEST(Regex, RubySyntaxMeansWhatOnigurumaSays) {
  EXPECT_EQ(matches("\\p{N}{1,3}", "1234567"), (Strings{"123", "456", "7"}));
  // {n,m}+ repeats, where Perl would make it possessive.
  EXPECT_EQ(matches("\\p{N}{1,3}+", "1234567"), (Strings{"1234567"}));
  EXPECT_EQ(matches("(?:a|b){2}+", "ababa"), (Strings{"abab"}));
  EXPECT_EQ(matches("[ab]{,2}c", "abcc"), (Strings{"abc", "c"}));
  EXPECT_EQ(matches("a++b", "aab"), (Strings{"aab"}));
  EXPECT_EQ(matches("\\w+", "a_1\u0301\u203Fb-c"), (Strings{"a_1\u0301\u203Fb", "c"}));
  EXPECT_EQ(matches("^a", "a\na"), (Strings{"a", "a"}));
  EXPECT_EQ(matches("(?i:'s|'t)", "'S'T"), (Strings{"'S", "'T"}));
  EXPECT_EQ(matches("\\p{Han}+", "中文\u3001a"), (Strings{"中文"}));
  EXPECT_EQ(matches("[]a]+", "a]b"), (Strings{"a]"}));
  EXPECT_EQ(matches("\\u4e2d\\x{6587}", "中文"), (Strings{"中文"}));
  EXPECT_EQ(matches("\\p{^L}+", "a12"), (Strings{"12"}));
}

TEST(Regex, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"[\\p{L}&&[^a]]", "&&"}, {"[a--b]", "--"},        {"[a[b]]", "'[' inside a class"},
      {"[[:alpha:]]", "'['"},   {"\\h", "\\h"},          {"\\bword", "\\b"},
      {"(a)\\1", "\\1"},        {"(?m:a)", "(?m:"},      {"(?<name>a)", "(?<n"},
      {"(?(1)a|b)", "(?(1"},    {"(*SKIP)", "verb"},     {"a{2}?", "{n}?"},
      {"\\Qa\\E", "\\Q"},       {"[a", "without its"},   {"a)", "unmatched"},
      {"(a", "missing"},        {"\\p{IsHan}", "IsHan"}, {"(?R)", "(?R"},
      {"\\", "backslash"},      {"\\u12", "\\u"},        {"[\\W]", "\\W"},
  };
  for (const auto& [pattern, wanted] : cases) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(regex.error().message.find(wanted), std::string::npos) << regex.error().message;
  }
  EXPECT_FALSE(Regex::compile(std::string(1000, '(')));
  EXPECT_FALSE(Regex::compile(std::string(100'000, 'a')));
}

TEST(Regex, LiteralsAreNotPatterns) {
  const auto regex = Regex::compile_literal("a.[b]*\\n ");
  ASSERT_TRUE(regex);
  RegexScratch scratch;
  EXPECT_EQ(regex->find("xa.[b]*\\n ", 0, scratch).value(), (Range{1, 10}));
}

// A pattern that backtracks without end is an error, not a hang.
TEST(Regex, MatchLimit) {
  const auto regex = Regex::compile("(?:a|a)+[^a][xy]");
  ASSERT_TRUE(regex);
  RegexScratch scratch;
  const auto result = regex->find(std::string(5000, 'a') + "!", 0, scratch);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
}

TEST(Regex, LongSubjects) {
  const auto regex = Regex::compile("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|\\p{L}+");
  ASSERT_TRUE(regex);
  RegexScratch scratch;
  const std::string blanks = std::string(1'000'000, ' ') + "x";
  EXPECT_EQ(regex->find(blanks, 0, scratch).value(), (Range{0, 999'999}));
  EXPECT_EQ(regex->find(std::string(1'000'000, 'a'), 0, scratch).value(), (Range{0, 1'000'000}));
}

}  // namespace
}  // namespace tandem::text
