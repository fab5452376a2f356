#pragma once
// What a generation gives to whoever asked for it: text and tokens, in pieces.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "frontend/request_error.h"

namespace tandem::frontend {

// A token as a reader sees it. `bytes` are exact; `text` has U+FFFD where they are no UTF-8 by
// themselves.
struct TokenText {
  int32_t id = 0;
  std::string text;
  std::string bytes;
};

struct TokenChance {
  TokenText token;
  float logprob = 0;
  int32_t rank = 0;  // 1 = the most probable; 0 = not known
};

struct OutputToken {
  TokenText token;
  bool has_logprobs = false;
  float logprob = 0;
  int32_t rank = 0;
  std::vector<TokenChance> top;  // descending
};

// Entry i belongs to prompt token i; entry 0 has no log-probability.
struct PromptToken {
  OutputToken token;
};

struct OutputDelta {
  int32_t choice = 0;
  std::string text;       // may be empty: an unfinished code point, or held back for a stop string
  std::string reasoning;  // what the model thought before `text`, where thinking is split off
  int32_t reasoning_tokens = 0;     // of `tokens`
  std::vector<OutputToken> tokens;  // what the model made since the last delta
  std::vector<PromptToken>
      prompt;  // once, in the first delta of choice 0, if prompt log-probabilities were asked for
  engine::FinishReason finish = engine::FinishReason::kNone;
  std::variant<std::monostate, std::string, int32_t>
      stop_reason;  // the stop string or stop token id
  int32_t cached_tokens = 0;
  std::optional<RequestError> error;  // with FinishReason::kError
};

// Called on the frontend's output threads, one call at a time per generation, never after the last
// choice's finish. May not block for long.
class OutputListener {
 public:
  virtual ~OutputListener() = default;
  // `generation`: the number that the listener was started with (which prompt of a call).
  virtual void on_output(int generation, OutputDelta delta) = 0;
};

}  // namespace tandem::frontend
