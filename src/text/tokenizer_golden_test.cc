// Ids and texts equal to the tokenizers library's, on recorded cases.

#include <gtest/gtest.h>

#include <cstdio>

#include "text/detokenizer.h"
#include "text/text_test_data.h"
#include "text/tokenizer.h"

namespace tandem::text {
namespace {

using Ids = std::vector<int32_t>;

class GoldenTokenizer : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    loaded_ = test::load_tokenizer(GetParam());
    if (!loaded_) GTEST_SKIP() << "no tokenizer files for " << GetParam();
  }
  std::vector<OrderedJson> cases(const std::string& file) const {
    std::vector<OrderedJson> out;
    for (auto& c : test::read_json_lines(test::golden_file(file))) {
      if (c.at("tokenizer") == GetParam()) out.push_back(std::move(c));
    }
    return out;
  }
  const Tokenizer& tokenizer() const { return loaded_->tokenizer; }

  std::optional<test::Loaded> loaded_;
};

std::string case_file(const std::string& name) {
  return name == "tandem-tiny-v3" ? "tokenizer_cases_tandem_tiny.jsonl" : "tokenizer_cases.jsonl";
}

TEST_P(GoldenTokenizer, EncodesAndDecodes) {
  const auto all = cases(case_file(GetParam()));
  if (all.empty()) GTEST_SKIP() << "no cases";
  int encoded = 0;
  for (const OrderedJson& c : all) {
    if (c.contains("deltas") || c.contains("text_keep")) continue;
    ++encoded;
    const auto text = c.at("text").get<std::string>();
    const auto ids = c.at("ids").get<Ids>();
    const auto with_special = c.contains("ids_special") ? c["ids_special"].get<Ids>() : ids;
    const auto plain = tokenizer().encode(text, {});
    ASSERT_TRUE(plain) << plain.error().message;
    ASSERT_EQ(*plain, ids) << text;
    ASSERT_EQ(tokenizer().encode(text, {.around = SequenceTokens::kFile}).value(), with_special);
    ASSERT_EQ(tokenizer().decode(with_special, true), c.value("decode_skip", text));
    ASSERT_EQ(tokenizer().decode(with_special, false), c.value("decode_keep", text));
  }
  std::printf("%d strings\n", encoded);
  EXPECT_GT(encoded, 400);
}

TEST_P(GoldenTokenizer, Detokenizes) {
  const bool tiny = std::string_view(GetParam()) == "tandem-tiny-v3";
  const auto all = cases(tiny ? "tokenizer_cases_tandem_tiny.jsonl" : "detokenize_cases.jsonl");
  int with_deltas = 0;
  for (const OrderedJson& c : all) {
    const auto ids = c.at("ids").get<Ids>();
    if (tiny && !c.contains("deltas") && !c.contains("text_keep")) continue;
    const auto text = c.at("text").get<std::string>();
    ASSERT_EQ(tokenizer().decode(ids, true), text);
    Detokenizer detokenizer(tokenizer(), true);
    std::string joined;
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::string delta = detokenizer.push(ids[i]);
      joined += delta;
      if (!c.contains("deltas")) continue;
      const OrderedJson& wanted = c["deltas"][i];
      ASSERT_EQ(delta, wanted.is_null() ? "" : wanted.get<std::string>()) << text << " at " << i;
    }
    joined += detokenizer.flush();
    ASSERT_EQ(joined, text);
    if (c.contains("deltas")) {
      ++with_deltas;
      continue;
    }
    const auto keep = c.at("text_keep").get<std::string>();
    ASSERT_EQ(tokenizer().decode(ids, false), keep);
    Detokenizer keeper(tokenizer(), false);
    joined.clear();
    for (const int32_t id : ids) joined += keeper.push(id);
    ASSERT_EQ(joined + keeper.flush(), keep);
  }
  if (with_deltas == 0) GTEST_SKIP() << "no cases";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    GoldenTokenizer,
    ::testing::Values("deepseek_v3", "llama3", "qwen2_5", "qwen3", "tandem-tiny-v3"),
    [](const auto& tested) {
      std::string name = tested.param;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

TEST(GoldenTokenizer, PromptsOfTheBundledModel) {
  const auto expected =
      test::read_file(test::either(test::source_dir() / "tests/golden/tandem_tiny_expected.json",
                                   test::shared_dir() / "model/expected.json"));
  const auto loaded = test::load_tokenizer("tandem-tiny-v3");
  if (!expected || !loaded) GTEST_SKIP() << "no expected.json";
  const Json json = parse_json(*expected).value();
  ASSERT_FALSE(json.at("prompts").empty());
  for (const Json& prompt : json.at("prompts")) {
    // The rendered chat has its begin token already; nothing is put around it.
    EXPECT_EQ(loaded->tokenizer.encode(prompt.at("text").get<std::string>(), {}).value(),
              prompt.at("prompt_ids").get<Ids>());
  }
}

TEST(GoldenTokenizer, SentencePieceIsRefusedByName) {
  const auto json = test::read_file(test::tokenizer_dir("llama2") / "tokenizer.json");
  if (!json) GTEST_SKIP() << "no llama2 files";
  const auto tokenizer = Tokenizer::parse(*json, {});
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(tokenizer.error().message.find("model.byte_fallback"), std::string::npos);
}

}  // namespace
}  // namespace tandem::text
