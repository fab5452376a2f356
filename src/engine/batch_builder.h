#pragma once
// Plan entries -> model::Batch.
//
// Owner: EngineState. Engine thread. Errors: none.

#include <vector>

#include "engine/config.h"
#include "engine/sequence.h"
#include "model/batch.h"

namespace tandem::engine {

// Rows of one sequence in a step, its blocks already in its table.
struct StepRows {
  Sequence* sequence = nullptr;
  int32_t start = 0;
  int32_t count = 0;
  int32_t prompt_rows_begin = 0;  // positions that give prompt log-probabilities
  int32_t prompt_rows_end = 0;
  bool samples = false;
  int32_t drafts = 0;  // of the rows, the last so many: the sequence's first drafts

  // Filled by the builder: where the results will be.
  int32_t first_prompt_row = -1;
  int32_t sample_row = -1;  // the first; `drafts` more follow, each after one draft more
  // The sequence's `hold` at launch.
  int32_t hold = 0;
};

class BatchBuilder {
 public:
  explicit BatchBuilder(const EngineConfig& config);

  // Reads the sequences as they are before the step: `computed`, `placeholders` and `sample_row` of
  // the launch before.
  void build(std::vector<StepRows>& rows, model::Batch& batch) const;

  // Takes the memory that batches of this engine need, so that decoding takes none.
  void reserve(model::Batch& batch) const;

 private:
  static int32_t token_at(const StepRows& rows, int32_t position);
  void add_tokens(const StepRows& rows, model::Batch& batch) const;
  void add_segments(const StepRows& rows, int32_t table_row, model::Batch& batch) const;
  void add_logits_rows(StepRows& rows, int32_t first_row, model::Batch& batch) const;
  void add_block_tables(const std::vector<StepRows>& rows, model::Batch& batch) const;

  const EngineConfig& config_;
};

}  // namespace tandem::engine
