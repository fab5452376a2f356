#pragma once
// Pieces of answers as JSON: names, order and nulls as OpenAI and vLLM have them. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "frontend/output.h"

namespace tandem::serve {

// The start of every answer and chunk.
struct AnswerHead {
  std::string id;  // "chatcmpl-…", "cmpl-…"
  std::string object;
  int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  bool with_details = false;                // --enable-prompt-tokens-details
  std::optional<int64_t> reasoning_tokens;  // where thinking is split off
};

// How tokens are written where they are named.
struct TokenStyle {
  bool as_ids = false;  // return_tokens_as_token_ids: "token_id:N"
};

OrderedJson head_json(const AnswerHead& head);
OrderedJson usage_json(const Usage& usage);
// null, the stop string or the stop token id.
OrderedJson stop_reason_json(const std::variant<std::monostate, std::string, int32_t>& reason);
// null while the choice goes on.
OrderedJson finish_reason_json(engine::FinishReason finish);

// {"content": [{token, logprob, bytes, top_logprobs}]}. Log-probabilities below -9999 are written
// as -9999.
OrderedJson chat_logprobs_json(const std::vector<frontend::OutputToken>& tokens, TokenStyle style);

// {text_offset, token_logprobs, tokens, top_logprobs}. `offset`: characters before the first token;
// grows by what the tokens add. A token without log-probability (the first of an echoed prompt) has
// null.
OrderedJson completion_logprobs_json(const std::vector<frontend::OutputToken>& tokens,
                                     TokenStyle style,
                                     int64_t& offset);

// [null, {"<id>": {logprob, rank, decoded_token}}, …], one entry a prompt token.
OrderedJson prompt_logprobs_json(const std::vector<frontend::PromptToken>& tokens);

OrderedJson token_ids_json(const std::vector<frontend::OutputToken>& tokens);

}  // namespace tandem::serve
