#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <set>

#include "text/newer_unicode.h"
#include "text/regex.h"

namespace tandem::text {
namespace {

std::string utf8(std::initializer_list<char32_t> points) {
  std::string out;
  for (const char32_t c : points) utf8_append(out, c);
  return out;
}

std::string normal(const std::string& text, NormalForm form) {
  return normalize(MarkedText(text, false), form).text();
}

template <class Visit>
void for_each_code_point(Visit&& visit) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c >= 0xE000) visit(c);
  }
}

// Every code point, alone, agrees with utf8proc's own normalization; so does every pair of a letter
// and a mark that combine.
TEST(Unicode, NormalFormsOfAllCodePoints) {
  const auto reference = [](const std::string& text, int options) {
    utf8proc_uint8_t* out = nullptr;
    const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()),
                                   &out,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
    std::string result(reinterpret_cast<char*>(out), static_cast<size_t>(size));
    free(out);
    return result;
  };
  const std::pair<NormalForm, int> forms[] = {
      {NormalForm::kNfc, UTF8PROC_COMPOSE},
      {NormalForm::kNfd, UTF8PROC_DECOMPOSE},
      {NormalForm::kNfkc, UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
      {NormalForm::kNfkd, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  for (const auto& one : forms) {
    for_each_code_point([&](char32_t c) {
      const std::string text = utf8({'a', c, 0x301, c, 'b'});
      ASSERT_EQ(normal(text, one.first), reference(text, one.second)) << static_cast<uint32_t>(c);
    });
  }
}

// A code point taken for safe must never be the second part of a composition, nor a mark.
TEST(Unicode, SafeCodePointsAreSafe) {
  std::set<char32_t> seconds;
  for_each_code_point([&](char32_t c) {
    utf8proc_int32_t parts[32];
    int boundary = 0;
    // Without COMPAT: the canonical decomposition.
    const auto count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), parts, 32, UTF8PROC_DECOMPOSE, &boundary);
    for (int i = 1; i < count; ++i) seconds.insert(static_cast<char32_t>(parts[i]));
  });
  for (const NormalForm form :
       {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
    for_each_code_point([&](char32_t c) {
      if (!is_normalization_safe(c, form)) return;
      EXPECT_EQ(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class, 0);
      EXPECT_FALSE(seconds.contains(c)) << static_cast<uint32_t>(c);
      EXPECT_EQ(normal(utf8({c}), form), utf8({c})) << static_cast<uint32_t>(c);
    });
  }
}

TEST(Unicode, MarksFollowNormalization) {
  MarkedText text("e", false);
  text.append("\u0301 x", true);
  text.append(" \u212B", false);
  EXPECT_EQ(normalize(text, NormalForm::kNfc), MarkedText("é x Å", {{0, 4}}));
}

// A client chooses the length of a run of marks; sorting it must not be quadratic.
TEST(Unicode, LongRunsOfMarksAreSorted) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += i % 2 ? "\u0316" : "\u0301";
  const std::string out = normal(text, NormalForm::kNfd);
  EXPECT_EQ(out.size(), text.size());
  EXPECT_TRUE(out.starts_with("a\u0316\u0316"));
  EXPECT_TRUE(out.ends_with("\u0301\u0301"));
}

TEST(Unicode, Case) {
  std::string out;
  append_upper(out, U'ß');
  append_title(out, U'ß');
  append_lower(out, U'İ');
  append_upper(out, U'é');
  EXPECT_EQ(out, "SSSsi\u0307É");
}

TEST(NewerUnicode, KeepsLengthAndLeavesOlderTextAlone) {
  EXPECT_FALSE(fold_newer_code_points("plain text, 中文 😀 é"));
  // U+1FA77 (Unicode 15, So), U+31350 (15, Lo), U+0897 (16, Mn), U+180E (Cf, no blank).
  const std::string text = utf8({0x1FA77, 'a', 0x31350, 0x897, 0x180E});
  const auto folded = fold_newer_code_points(text);
  ASSERT_TRUE(folded);
  EXPECT_EQ(folded->size(), text.size());
  RegexScratch scratch;
  const auto regex = Regex::compile("\\p{So}a\\p{Han}\\p{M}\\S");
  ASSERT_TRUE(regex);
  EXPECT_EQ(regex->find(*folded, 0, scratch).value(), (Range{0, text.size()}));
  EXPECT_FALSE(Regex::found(regex->find(text, 0, scratch).value()));
}

}  // namespace
}  // namespace tandem::text
