#pragma once
// What sampling needs to know of one sequence beside its parameters, kept as the output grows: the
// counts that penalties look at, and the rows of allowed tokens.
//
// Owner: Sequence. Engine thread. Errors: none (parameters are validated before).

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "kernels/sampling.h"
#include "model/batch.h"

namespace tandem::engine {

// Counts of distinct tokens, in order of first occurrence. Open addressing; memory grows by
// doubling.
class TokenHistory {
 public:
  void add(int32_t id, bool in_prompt);
  std::span<const kernels::HistoryEntry> entries() const { return entries_; }

  // Appends the entries as they would be after `drafts` as further output.
  void append_with(std::span<const int32_t> drafts, std::vector<kernels::HistoryEntry>& out) const;

 private:
  size_t find_slot(int32_t id) const;
  void grow();

  std::vector<kernels::HistoryEntry> entries_;
  std::vector<int32_t> slots_;  // index into entries_, -1 = empty; size a power of two
};

// A token that is to be drawn. `output` and then `drafts`, which nobody has drawn yet, stand before
// it; where a placeholder does too, it is only counted.
struct DrawPoint {
  std::span<const int32_t> output;
  std::span<const int32_t> drafts;
  int32_t output_count = 0;  // tokens of output before it
  int32_t choice = 0;
  int32_t position = 0;  // its absolute index
};

class SamplingState {
 public:
  // The params and ids outlive this object.
  void init(const SamplingParams& params,
            std::span<const int32_t> eos_ids,
            std::span<const int32_t> prompt,
            std::span<const int32_t> output,
            int32_t vocabulary);

  void add_output(int32_t token);

  // True when the row depends on the ids of the output so far, not on their number alone: such a
  // sequence cannot be launched before its last token is known.
  bool needs_known_tokens() const { return penalties_ || !params_->bad_words.empty(); }

  // Appends the row that draws a token and what it refers to.
  void append_row(const DrawPoint& point, model::Batch& batch) const;

  // True when the client's rules (allowed tokens, bad words, min_tokens) forbid every token after
  // this output, so that there is nothing to draw.
  bool forbids_everything(std::span<const int32_t> output) const;

 private:
  int32_t append_mask(const DrawPoint& point, model::Batch& batch) const;

  const SamplingParams* params_ = nullptr;
  std::span<const int32_t> eos_ids_;
  int32_t vocabulary_ = 0;
  bool penalties_ = false;
  bool prompt_counts_ = false;  // the repetition penalty alone looks at the prompt
  TokenHistory history_;
  std::vector<uint32_t> allowed_;  // [mask words]; empty = everything
};

// A row that draws nothing and reports `token`'s log-probability.
void append_forced_row(int32_t token, int32_t top_logprobs, model::Batch& batch);

}  // namespace tandem::engine
