#pragma once
// A request as the engine knows it: token ids in, token ids out. Text, templates, stop strings and
// parsers are frontend's.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace tandem::engine {

// Ends a choice whose output has come to repeat itself: a pattern of min_size to max_size tokens,
// min_count times in a row at its end. Off while max_size is 0.
struct RepetitionRule {
  int32_t min_size = 1;
  int32_t max_size = 0;
  int32_t min_count = 2;
};

// Checked by frontend; ids are inside the logits width.
struct SamplingParams {
  float temperature = 1.0f;  // 0 = greedy
  float top_p = 1.0f;
  int32_t top_k = 0;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  uint64_t seed = 0;  // drawn by frontend when the client gave none
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;  // end and stop ids are masked until reached
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;
  RepetitionRule repetition;
  int32_t top_logprobs = -1;         // -1 = none
  int32_t prompt_top_logprobs = -1;  // -1 = none; no prefix hit then
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> allowed_token_ids;       // empty = all
  std::vector<std::vector<int32_t>> bad_words;  // token sequences that may not be completed
};

enum class FinishReason { kNone, kStop, kLength, kRepetition, kAbort, kError };

struct TokenLogprobs {
  float logprob = 0;
  int32_t rank = 0;
  std::vector<std::pair<int32_t, float>> top;  // descending
};

// One token of one choice, or its end. `token` is -1 in an event that only ends the choice or
// carries prompt log-probabilities.
struct TokenEvent {
  int32_t choice = 0;
  int32_t token = -1;
  FinishReason finish = FinishReason::kNone;
  std::optional<int32_t>
      stop_token;  // the stop_token_ids member that ended it; none for the model's own end
  std::optional<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs>
      prompt_logprobs;  // first event of choice 0, if asked for; entry 0 is empty
  std::vector<int32_t> prompt_logprob_ids;
  int32_t cached_tokens = 0;   // of the prompt, in every event
  TimePoint scheduled{};       // when the choice first entered a step, for queue times
  int32_t preemptions = 0;     // of the choice so far
  std::optional<Error> error;  // with kError
};

// Where the engine thread puts a request's events. Called on the engine thread only; may not block
// or throw.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(TokenEvent event) = 0;
};

// Handed to the engine by frontend; the engine owns it from then on.
struct Request {
  std::string id;  // ours: base/ids.h
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int32_t choices = 1;   // n
  int32_t priority = 0;  // smaller first
  std::string tenant_salt;
  std::string cache_salt;
  int32_t adapter = 0;
  std::optional<TimePoint> deadline;
  TimePoint arrival{};
  std::vector<int32_t> eos_ids;
  std::vector<int32_t>
      resume_output;  // tokens of choice 0 that an earlier run produced: goes on at their end
  std::shared_ptr<EventSink> sink;
};

}  // namespace tandem::engine
