#pragma once
// What one step computes: built by the engine from a plan, run by the executor. Host memory;
// vectors keep their capacity over clear(), so that a steady decode allocates nothing.

#include <cstdint>
#include <vector>

#include "kernels/operators.h"
#include "kernels/sampling.h"

namespace tandem::model {

// A model's caches form groups (main, indexer keys, draft layer) with block tables of their own.
struct BatchKvGroup {
  std::vector<int64_t> slots;        // [tokens] block * kBlockTokens + offset; -1 = do not append
  std::vector<int32_t> block_table;  // [sequences, stride]
  int32_t block_table_stride = 0;

  void clear() {
    slots.clear();
    block_table.clear();
    block_table_stride = 0;
  }
};

struct Batch {
  // Rows. A negative id ~r stands for the id that logits row r of the step before is still
  // sampling.
  std::vector<int32_t> token_ids;  // [tokens]
  std::vector<int32_t> positions;  // [tokens]
  std::vector<kernels::Segment> segments;
  std::vector<BatchKvGroup> groups;  // by KV group

  // Logits rows: any number per sequence (drafts, prompt log-probabilities).
  std::vector<int32_t> logits_rows;  // [rows] index of a token row
  std::vector<kernels::SampleRow> sample_rows;
  std::vector<int32_t> bias_ids;
  std::vector<float> bias_values;
  std::vector<kernels::HistoryEntry> history;
  std::vector<uint32_t> masks;  // [mask rows, mask_words]
  int32_t mask_words = 0;
  int32_t max_top_logprobs = 0;

  int32_t tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t rows() const { return static_cast<int32_t>(logits_rows.size()); }

  void clear() {
    token_ids.clear();
    positions.clear();
    segments.clear();
    for (BatchKvGroup& group : groups) group.clear();
    logits_rows.clear();
    sample_rows.clear();
    bias_ids.clear();
    bias_values.clear();
    history.clear();
    masks.clear();
    mask_words = 0;
    max_top_logprobs = 0;
  }
};

// What a step gives back, one entry a logits row.
struct StepResult {
  std::vector<kernels::SampleResult> rows;
  std::vector<int32_t> top_ids;  // [rows, max_top_logprobs], descending; rest -1
  std::vector<float> top_logprobs;
  int32_t max_top_logprobs = 0;
};

}  // namespace tandem::model
