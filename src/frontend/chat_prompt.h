#pragma once
// A conversation to the text that the model sees, with the client's parts marked. Pure but for the
// clock.

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "frontend/chat_input.h"
#include "frontend/request_error.h"
#include "text/chat_template.h"

namespace tandem::frontend {

// bos_token, eos_token … of tokenizer_config.json.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

// With continue_final_message the text ends with the last message's content: what the template
// writes after it (end of turn) is cut off.
Checked<text::MarkedText> render_chat(const text::ChatTemplate& chat_template,
                                      const SpecialTokens& special_tokens,
                                      const ChatInput& input,
                                      const Clock& clock);

}  // namespace tandem::frontend
