#pragma once
// What a client asked for, in no API's words: absent means unset. Types are already right (the
// schema's business); ranges, ids and combinations are checked by validate.h.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::frontend {

struct GenerationOptions {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<int64_t> seed;
  std::optional<int64_t> n;
  std::optional<int64_t> max_tokens;
  std::string max_tokens_name = "max_tokens";  // the field it came from, for messages
  std::optional<int64_t> min_tokens;
  std::optional<bool> ignore_eos;
  // Ends an output that repeats itself; sizes in tokens (vLLM's repetition_detection).
  struct Repetition {
    int64_t min_pattern_size = 0;
    int64_t max_pattern_size = 0;
    int64_t min_count = 0;
  };
  std::optional<Repetition> repetition;
  std::vector<std::string> stop;
  std::vector<int64_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  std::vector<std::pair<int64_t, double>> logit_bias;
  std::optional<std::vector<int64_t>> allowed_token_ids;
  std::vector<std::string> bad_words;
  std::optional<int64_t> logprobs;         // number of alternatives; -1 = whole vocabulary
  std::string logprobs_name = "logprobs";  // "top_logprobs" in chat
  std::optional<int64_t> prompt_logprobs;
  std::optional<int64_t> truncate_prompt_tokens;
  bool truncate_end = false;  // the first tokens are kept, not the last
  int64_t priority = 0;
  std::string cache_salt;
  bool split_reasoning = false;  // if the frontend knows the model's marks
};

// Bounds on what one request may cost, applied before anything is allocated for it.
struct RequestLimits {
  int64_t max_model_len = 0;  // tokens: prompt + output
  int64_t vocabulary = 0;     // logits width: ids are below it
  int64_t max_choices = 128;  // n
  int64_t max_stop_strings = 16;
  int64_t max_stop_bytes = 1024;  // each
  int64_t max_logprobs = 20;
  int64_t max_logit_bias = 1024;
  int64_t max_bad_words = 1024;
  int64_t max_stop_token_ids = 1024;
  int64_t max_pattern_size = 1024;    // of repetition_detection
  int64_t max_prompts = 1024;         // of one completions call
  int64_t max_sequences = 1024;       // prompts x n of one call
  int64_t max_list_ids = 16'000'000;  // in the lists of token ids of all prompts of one call
  // Log-probabilities that one call may ask to be kept until its answer is whole. Each takes some
  // hundred bytes with its token's text.
  int64_t max_kept_logprobs = 8'000'000;
};

}  // namespace tandem::frontend
