#include "frontend/chat_prompt.h"

#include <gtest/gtest.h>

namespace tandem::frontend {
namespace {

// The end marker spells words that messages end with, too.
constexpr std::string_view kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}{% endfor %}"
    "<end of sentence>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

Checked<std::string> continued(OrderedJson last) {
  const auto chat_template = text::ChatTemplate::parse(kTemplate);
  EXPECT_TRUE(chat_template);
  ChatInput input;
  input.messages = OrderedJson::array();
  input.messages.push_back({{"role", "user"}, {"content", "e"}});
  input.messages.push_back(std::move(last));
  input.continue_final_message = true;
  input.add_generation_prompt = false;
  const SteadyClock clock;
  TANDEM_ASSIGN(const text::MarkedText rendered, render_chat(*chat_template, {}, input, clock));
  return rendered.text();
}

OrderedJson assistant(const char* content) { return {{"role", "assistant"}, {"content", content}}; }

TEST(ChatPrompt, TheContinuedMessageStaysOpen) {
  const std::string before = "<user>e<end of sentence><assistant>";
  for (const char* content : {"Once", "e", "sentence", "end of", ">", "<end of sentence>"}) {
    EXPECT_EQ(continued(assistant(content)).value(), before + content);
  }
  EXPECT_EQ(continued(assistant("  Once \n")).value(), before + "Once");
}

TEST(ChatPrompt, NothingToContinueIsRefused) {
  OrderedJson with_call = assistant("e");
  with_call["tool_calls"] = {{{"type", "function"}, {"function", {{"name", "e"}}}}};
  for (const OrderedJson& last : {assistant(""), assistant(" \n"), with_call}) {
    const auto result = continued(last);
    ASSERT_FALSE(result) << last;
    EXPECT_EQ(result.error().param, "continue_final_message");
  }
}

}  // namespace
}  // namespace tandem::frontend
