#pragma once
// How one choice of chat and of completions is written, whole and in chunks. Pure but for the
// ChoiceState that they advance.

#include <string>
#include <vector>

#include "serve/answer_json.h"

namespace tandem::serve {

struct ChoiceStyle {
  bool chat = true;
  bool logprobs = false;
  bool prompt_logprobs = false;  // asked for as such: shown under their own key
  bool echo = false;             // the prompt, in chat the last message, precedes the text
  bool score_only = false;       // completions: echo without output
  bool return_token_ids = false;
  std::string role = "assistant";  // chat
  bool include_reasoning = true;   // chat: thinking that was split off is shown
  TokenStyle tokens;
};

// What is known of a choice so far. Streams use only the counters; whole answers the rest.
struct ChoiceState {
  int32_t index = 0;
  std::string text;
  std::string reasoning;
  std::vector<frontend::OutputToken> tokens;
  std::vector<frontend::PromptToken> prompt;
  engine::FinishReason finish = engine::FinishReason::kNone;
  std::variant<std::monostate, std::string, int32_t> stop_reason;
  int64_t text_offset = 0;     // characters written before the next token
  frontend::OutputDelta held;  // of a stream that shows several tokens at once
  bool has_streamed = false;
};

struct PromptView {
  const std::string* text = nullptr;  // null unless echoed
  const std::vector<int32_t>* ids = nullptr;
};

// Chunks that a choice's stream opens with: the role, the echoed prompt or message.
std::vector<OrderedJson> opening_choices(const ChoiceStyle& style,
                                         ChoiceState& state,
                                         const PromptView& prompt);

OrderedJson stream_choice(const ChoiceStyle& style,
                          ChoiceState& state,
                          const frontend::OutputDelta& delta);

OrderedJson whole_choice(const ChoiceStyle& style, ChoiceState& state, const PromptView& prompt);

}  // namespace tandem::serve
