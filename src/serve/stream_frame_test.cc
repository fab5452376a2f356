#include "serve/stream_frame.h"

#include <gtest/gtest.h>

#include "net/sse.h"
#include "serve/choice_format.h"

namespace tandem::serve {
namespace {

const AnswerHead kHead{
    "chatcmpl-1", "chat.completion.chunk", 1234567890, "a \"model\"", "fingerprint"};

std::string the_long_way(ChunkText kind, bool usage_null, int32_t index, const std::string& text) {
  ChoiceStyle style;
  style.chat = kind != ChunkText::kCompletion;
  ChoiceState state;
  state.index = index;
  frontend::OutputDelta delta;
  (kind == ChunkText::kChatReasoning ? delta.reasoning : delta.text) = text;
  OrderedJson frame = head_json(kHead);
  frame["choices"] = OrderedJson::array({stream_choice(style, state, delta)});
  if (usage_null) frame["usage"] = nullptr;
  return net::sse_data(dump_json(frame));
}

TEST(StreamFrame, HasTheBytesOfTheLongWay) {
  for (const bool usage_null : {false, true}) {
    const StreamFrame frame(kHead, usage_null);
    for (const char* text : {"a",
                             "",
                             " hello",
                             "\"quoted\" \\ back",
                             "line\nend\r\t\b\f",
                             "\x01\x1f\x7f",
                             "é你🤗",
                             "\xff\xc3",
                             "cut \xf0\x9f",
                             "</script>"}) {
      for (const ChunkText kind : {ChunkText::kCompletion, ChunkText::kChatContent})
        EXPECT_EQ(frame.event(kind, 12, text), the_long_way(kind, usage_null, 12, text));
      if (*text == 0) continue;  // no thought, no chunk
      EXPECT_EQ(frame.event(ChunkText::kChatReasoning, 0, text),
                the_long_way(ChunkText::kChatReasoning, usage_null, 0, text));
    }
  }
}

}  // namespace
}  // namespace tandem::serve
