#pragma once
// Hears what becomes of generations: the figures that metrics are made of. Durations are measured
// where the engine hands tokens over, not where a client reads them.

#include <cstdint>
#include <optional>

#include "engine/request.h"

namespace tandem::frontend {

// One choice that has ended. What did not happen is absent: a request that is aborted in the queue
// has no times.
struct ChoiceReport {
  engine::FinishReason finish = engine::FinishReason::kNone;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt
  int32_t output_tokens = 0;
  int32_t max_tokens = 0;
  Duration total{};                  // arrival to end
  std::optional<Duration> queued;    // arrival to the first step
  std::optional<Duration> prefill;   // first step to first token
  std::optional<Duration> decode;    // first token to last token
  std::optional<Duration> computed;  // first step to last token
};

// Called on the frontend's output threads, several at once, before the listener hears of the same
// thing. Must be quick and must not throw.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  virtual void on_first_token(Duration since_arrival) = 0;
  virtual void on_next_token(Duration since_last) = 0;
  virtual void on_choice_end(const ChoiceReport& report) = 0;
  // All choices have ended.
  virtual void on_generation_end(int32_t choices, int32_t longest_output) = 0;
};

}  // namespace tandem::frontend
