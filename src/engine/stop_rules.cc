#include "engine/stop_rules.h"

#include <algorithm>

namespace tandem::engine {

StopDecision stop_after(const SamplingParams& params,
                        std::span<const int32_t> eos_ids,
                        int32_t token,
                        int32_t output_count,
                        bool at_max_length) {
  const auto among = [token](std::span<const int32_t> ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  if (output_count >= params.min_tokens) {
    if (!params.ignore_eos && among(eos_ids)) return {FinishReason::kStop, std::nullopt};
    if (among(params.stop_token_ids)) return {FinishReason::kStop, token};
  }
  if (at_max_length) return {FinishReason::kLength, std::nullopt};
  return {};
}

}  // namespace tandem::engine
