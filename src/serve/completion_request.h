#pragma once
// POST /v1/completions: JSON -> CompletionRequest. Pure; any thread.

#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "frontend/generation_options.h"
#include "serve/generation_fields.h"

namespace tandem::serve {

using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  std::string model;
  std::vector<Prompt> prompts;  // at least one
  frontend::GenerationOptions options;
  StreamOptions stream;
  bool echo = false;
  bool score_only = false;  // echo with max_tokens 0: the prompt's log-probabilities, no output
  bool add_special_tokens = true;
  bool return_token_ids = false;
  bool return_tokens_as_token_ids = false;
};

Checked<CompletionRequest> parse_completion_request(const OrderedJson& body, size_t max_prompts);

}  // namespace tandem::serve
