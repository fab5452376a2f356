#include "engine/stop_rules.h"

#include <algorithm>

namespace tandem::engine {

bool RepetitionRuns::repeats(const RepetitionRule& rule, std::span<const int32_t> output) {
  if (rule.max_size <= 0) return false;
  runs_.resize(static_cast<size_t>(rule.max_size - rule.min_size + 1));
  bool found = false;
  for (; seen_ < output.size(); ++seen_) {
    found = false;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const size_t size = i + static_cast<size_t>(rule.min_size);
      const bool equal = seen_ >= size && output[seen_] == output[seen_ - size];
      runs_[i] = equal ? runs_[i] + 1 : 0;
      // The first of the patterns has nothing before it to equal.
      found = found || runs_[i] >= int64_t{rule.min_count - 1} * static_cast<int64_t>(size);
    }
  }
  return found;
}

StopDecision stop_after(const SamplingParams& params,
                        std::span<const int32_t> eos_ids,
                        int32_t token,
                        int32_t output_count,
                        bool at_max_length,
                        bool repeats) {
  const auto among = [token](std::span<const int32_t> ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  if (output_count >= params.min_tokens) {
    if (!params.ignore_eos && among(eos_ids)) return {FinishReason::kStop, std::nullopt};
    if (among(params.stop_token_ids)) return {FinishReason::kStop, token};
  }
  if (at_max_length) return {FinishReason::kLength, std::nullopt};
  if (repeats && output_count >= params.min_tokens)
    return {FinishReason::kRepetition, std::nullopt};
  return {};
}

}  // namespace tandem::engine
