#pragma once
// When a choice ends, by ids alone. Stop strings are frontend's.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/request.h"

namespace tandem::engine {

// Sees a growing output and tells when it repeats itself. A few instructions a pattern size and
// token, whatever the counts.
class RepetitionRuns {
 public:
  // Takes note of what was added to `output` since the last call.
  bool repeats(const RepetitionRule& rule, std::span<const int32_t> output);

 private:
  // By pattern size less min_size: how many tokens at the end equal the one that far before them.
  std::vector<int32_t> runs_;
  size_t seen_ = 0;
};

struct StopDecision {
  FinishReason reason = FinishReason::kNone;
  std::optional<int32_t> stop_token;
};

// After `token` was appended as output number `output_count` (from 1); `at_max_length`: no further
// token fits or is wanted. Order: vLLM's. Below min_tokens nothing stops but the end of the
// context.
StopDecision stop_after(const SamplingParams& params,
                        std::span<const int32_t> eos_ids,
                        int32_t token,
                        int32_t output_count,
                        bool at_max_length,
                        bool repeats);

}  // namespace tandem::engine
