#pragma once
// The one validator of every front end. Pure. Rules and defaults: vLLM's SamplingParams
// (docs/api.md).

#include <string>
#include <vector>

#include "engine/request.h"
#include "frontend/generation_options.h"
#include "frontend/request_error.h"
#include "model/config.h"

namespace tandem::frontend {

struct ValidatedOptions {
  engine::SamplingParams sampling;  // bad_words still empty: they need the tokenizer
  int32_t choices = 1;
  bool seeded = false;  // the client gave the seed; else the caller draws one
  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
};

// `prompt_tokens`: length after truncation. `default_max_tokens`: 16 for completions, none (to the
// end of the context) for chat. max_tokens beyond the context's rest is cut to it.
Checked<ValidatedOptions> validate_options(const GenerationOptions& options,
                                           const model::GenerationDefaults& defaults,
                                           const RequestLimits& limits,
                                           int64_t prompt_tokens,
                                           std::optional<int64_t> default_max_tokens);

// Keeps the last truncate_prompt_tokens ids if asked (-1 = what the context holds); then checks
// every id and that at least one token of output fits.
Checked<std::vector<int32_t>> check_prompt(std::vector<int32_t> ids,
                                           const GenerationOptions& options,
                                           const RequestLimits& limits);

// What the prompts of one call cost together, where each alone is within its limits. One call, one
// thread.
class CallSize {
 public:
  // A streamed answer keeps no log-probabilities of the output.
  CallSize(const RequestLimits& limits, bool streamed) : limits_(limits), streamed_(streamed) {}

  // Counts one more prompt. An error names the field that makes the call too large.
  Checked<void> add(int64_t prompt_tokens, const ValidatedOptions& options);

 private:
  const RequestLimits& limits_;
  bool streamed_;
  int64_t sequences_ = 0;
  int64_t list_ids_ = 0;
  int64_t kept_logprobs_ = 0;
};

}  // namespace tandem::frontend
