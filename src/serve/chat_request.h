#pragma once
// POST /v1/chat/completions: JSON -> ChatRequest. Pure; any thread.

#include <optional>
#include <string>

#include "base/json.h"
#include "frontend/chat_input.h"
#include "frontend/generation_options.h"
#include "serve/generation_fields.h"

namespace tandem::serve {

struct ChatRequest {
  std::string model;  // empty = the served one
  frontend::ChatInput input;
  frontend::GenerationOptions options;
  StreamOptions stream;
  std::string role = "assistant";  // of the answer
  std::string echo;                // what the answer's content begins with
  bool include_reasoning = true;
  bool return_token_ids = false;
  bool return_tokens_as_token_ids = false;
};

Checked<ChatRequest> parse_chat_request(const OrderedJson& body);

// What decides the prompt alone: messages, tools and template variables. For /tokenize, too, which
// renders tools.
Checked<frontend::ChatInput> parse_chat_input(const OrderedJson& body);

}  // namespace tandem::serve
