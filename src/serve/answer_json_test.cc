#include "serve/answer_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "serve/choice_format.h"

namespace tandem::serve {
namespace {

frontend::OutputToken token(int32_t id, const char* text, float logprob) {
  frontend::OutputToken out;
  out.token = {id, text, text};
  out.has_logprobs = true;
  out.logprob = logprob;
  out.rank = 1;
  return out;
}

TEST(AnswerJson, InfinityBecomesTheFloor) {
  const auto json =
      chat_logprobs_json({token(1, "a", -std::numeric_limits<float>::infinity())}, {});
  EXPECT_EQ(json["content"][0]["logprob"], -9999.0);
}

TEST(AnswerJson, TextOffsetsCountCharacters) {
  int64_t offset = 0;
  const auto json = completion_logprobs_json({token(1, "é", -1), token(2, "b", -2)}, {}, offset);
  EXPECT_EQ(json["text_offset"], OrderedJson::array({0, 1}));
  EXPECT_EQ(offset, 2);
  EXPECT_EQ(json["top_logprobs"][0]["é"], -1.0);
}

TEST(AnswerJson, TokensAsIds) {
  int64_t offset = 0;
  EXPECT_EQ(completion_logprobs_json({token(7, "x", 0)}, {.as_ids = true}, offset)["tokens"][0],
            "token_id:7");
}

TEST(ChoiceFormat, ChatStreamOpensWithTheRole) {
  ChoiceState state;
  const auto opening = opening_choices({.chat = true}, state, {});
  ASSERT_EQ(opening.size(), 1u);
  EXPECT_EQ(
      dump_json(opening[0]),
      R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})");
}

TEST(ChoiceFormat, LastChunkCarriesTheReason) {
  ChoiceState state;
  frontend::OutputDelta delta;
  delta.finish = engine::FinishReason::kStop;
  delta.stop_reason = std::string("END");
  const auto chunk = stream_choice({.chat = true}, state, delta);
  EXPECT_EQ(chunk["finish_reason"], "stop");
  EXPECT_EQ(chunk["stop_reason"], "END");
  EXPECT_EQ(chunk["delta"], OrderedJson::object());
}

TEST(ChoiceFormat, WholeChoiceHasStableKeys) {
  ChoiceState state;
  state.text = "hi";
  state.finish = engine::FinishReason::kLength;
  const auto choice = whole_choice({.chat = true}, state, {});
  EXPECT_EQ(choice["message"]["content"], "hi");
  EXPECT_TRUE(choice.contains("stop_reason") && choice["stop_reason"].is_null());
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
}

}  // namespace
}  // namespace tandem::serve
