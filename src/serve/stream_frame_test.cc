#include "serve/stream_frame.h"

#include <gtest/gtest.h>

#include "net/sse.h"
#include "serve/choice_format.h"

namespace tandem::serve {
namespace {

const AnswerHead kHead{
    "chatcmpl-1", "chat.completion.chunk", 1234567890, "a \"model\"", "fingerprint"};

std::string the_long_way(bool chat, bool usage_null, int32_t index, const std::string& text) {
  ChoiceStyle style;
  style.chat = chat;
  ChoiceState state;
  state.index = index;
  frontend::OutputDelta delta;
  delta.text = text;
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
      EXPECT_EQ(frame.event(ChunkText::kChatContent, 0, text),
                the_long_way(true, usage_null, 0, text));
      EXPECT_EQ(frame.event(ChunkText::kCompletion, 12, text),
                the_long_way(false, usage_null, 12, text));
    }
  }
}

}  // namespace
}  // namespace tandem::serve
