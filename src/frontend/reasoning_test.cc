#include "frontend/reasoning.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace tandem::frontend {
namespace {

// Bytes 33 to 126 are ids 0 to 93, a blank is 94, a newline 95; <think> 100, </think> 101.
text::Tokenizer small_tokenizer(bool with_marks = true) {
  Json vocab = Json::object();
  int id = 0;
  for (char c = 33; c < 127; ++c) vocab[std::string(1, c)] = id++;
  for (const char* written : {"Ġ", "Ċ"}) vocab[written] = id++;
  Json added = Json::array();
  const auto add = [&](int token_id, const char* content) {
    added.push_back({{"id", token_id},
                     {"content", content},
                     {"special", false},
                     {"normalized", false},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false}});
  };
  if (with_marks) add(100, "<think>");
  if (with_marks) add(101, "</think>");
  const Json json = {
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  auto tokenizer = text::Tokenizer::parse(dump_json(json), {});
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

constexpr ReasoningMarks kMarks = {100, 101};

TEST(Reasoning, MarksAreFoundByTheirSpelling) {
  const auto marks = find_reasoning_marks(small_tokenizer());
  ASSERT_TRUE(marks);
  EXPECT_EQ(marks->open, 100);
  EXPECT_EQ(marks->close, 101);
  EXPECT_FALSE(find_reasoning_marks(small_tokenizer(false)));
}

TEST(Reasoning, ThePromptSaysWhereAnAnswerBegins) {
  const text::Tokenizer tokenizer = small_tokenizer();
  const auto state = [&](std::vector<int32_t> prompt, bool thinks_unasked = false) {
    return reasoning_state(prompt, kMarks, tokenizer, thinks_unasked);
  };
  EXPECT_EQ(state({1, 2, 100}), ReasoningState::kThinking);
  EXPECT_EQ(state({1, 100, 95, 2}), ReasoningState::kThinking);  // already some words of thought
  EXPECT_EQ(state({1, 2, 101}), ReasoningState::kContent);
  EXPECT_EQ(state({100, 95, 101, 95, 95, 94}, true), ReasoningState::kContent);
  // An earlier turn's thinking says nothing about this one.
  EXPECT_EQ(state({100, 5, 101, 6}), ReasoningState::kMayOpen);
  EXPECT_EQ(state({100, 5, 101, 6}, true), ReasoningState::kThinking);
  EXPECT_EQ(state({1, 2}), ReasoningState::kMayOpen);
  EXPECT_EQ(state({}, true), ReasoningState::kThinking);
}

struct Token {
  int32_t id = 0;
  std::string text;
};

// Text is released `lag` bytes late, as stop strings make it.
ReasoningSplitter::Parts run(ReasoningState begin,
                             const std::vector<Token>& tokens,
                             size_t lag = 0,
                             int* thinking_tokens = nullptr) {
  ReasoningSplitter splitter(kMarks, begin);
  ReasoningSplitter::Parts all;
  std::string pending;
  const auto release = [&](size_t bytes) {
    const auto parts = splitter.split(pending.substr(0, bytes));
    pending.erase(0, bytes);
    all.thought += parts.thought;
    all.said += parts.said;
  };
  int thinking = 0;
  for (const Token& token : tokens) {
    const char* spelling = token.id == 100 ? "<think>" : token.id == 101 ? "</think>" : "";
    if (splitter.take(token.id, token.text, spelling)) ++thinking;
    pending += token.text;
    if (pending.size() > lag) release(pending.size() - lag);
  }
  release(pending.size());
  if (thinking_tokens) *thinking_tokens = thinking;
  return all;
}

TEST(Reasoning, TheSplitIsAtTheClosingMark) {
  const std::vector<Token> tokens = {{1, "one "}, {2, "two"}, {101, "</think>"}, {3, "three"}};
  for (size_t lag = 0; lag < 30; ++lag) {
    int thinking = 0;
    const auto parts = run(ReasoningState::kThinking, tokens, lag, &thinking);
    EXPECT_EQ(parts.thought, "one two") << lag;
    EXPECT_EQ(parts.said, "three") << lag;
    EXPECT_EQ(thinking, 2);
  }
}

TEST(Reasoning, AMarkThatTheDetokenizerHidesSplitsToo) {
  // What was unfinished before the mark comes with it.
  const auto parts = run(ReasoningState::kThinking, {{1, "a"}, {101, "\xEF\xBF\xBD"}, {3, "b"}});
  EXPECT_EQ(parts.thought, "a\xEF\xBF\xBD");
  EXPECT_EQ(parts.said, "b");
}

TEST(Reasoning, UnendedThinkingIsAllThought) {
  const auto parts = run(ReasoningState::kThinking, {{1, "a"}, {2, "b"}});
  EXPECT_EQ(parts.thought, "ab");
  EXPECT_EQ(parts.said, "");
}

TEST(Reasoning, TheModelMayOpenItsThinkingItself) {
  const std::vector<Token> tokens = {{100, "<think>"}, {1, "a"}, {101, "</think>"}, {2, "b"}};
  for (const auto begin : {ReasoningState::kMayOpen, ReasoningState::kThinking}) {
    const auto parts = run(begin, tokens, 3);
    EXPECT_EQ(parts.thought, "a");
    EXPECT_EQ(parts.said, "b");
  }
  const auto blank_first = run(ReasoningState::kMayOpen, {{95, "\n"}, {100, "<think>"}, {1, "a"}});
  EXPECT_EQ(blank_first.thought, "a");
}

TEST(Reasoning, OutsideThinkingMarksAreText) {
  const std::vector<Token> tokens = {{1, "a"}, {100, "<think>"}, {2, "b"}, {101, "</think>"}};
  for (const auto begin : {ReasoningState::kMayOpen, ReasoningState::kContent}) {
    const auto parts = run(begin, tokens);
    EXPECT_EQ(parts.thought, "");
    EXPECT_EQ(parts.said, "a<think>b</think>");
  }
  const auto twice =
      run(ReasoningState::kThinking, {{1, "a"}, {101, "</think>"}, {101, "</think>"}});
  EXPECT_EQ(twice.thought, "a");
  EXPECT_EQ(twice.said, "</think>");
}

}  // namespace
}  // namespace tandem::frontend
