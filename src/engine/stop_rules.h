#pragma once
// When a choice ends, by ids alone. Stop strings are frontend's.

#include <cstdint>
#include <optional>
#include <span>

#include "engine/request.h"

namespace tandem::engine {

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
                        bool at_max_length);

}  // namespace tandem::engine
