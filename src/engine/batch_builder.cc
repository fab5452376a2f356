#include "engine/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::engine {

BatchBuilder::BatchBuilder(const EngineConfig& config) : config_(config) {}

void BatchBuilder::reserve(model::Batch& batch) const {
  const auto tokens = static_cast<size_t>(config_.max_num_batched_tokens);
  const auto sequences =
      static_cast<size_t>(std::min(config_.max_num_seqs, config_.max_num_batched_tokens));
  const auto draws = std::min(tokens, sequences * (1 + static_cast<size_t>(config_.max_drafts)));
  const auto rows = draws + static_cast<size_t>(config_.max_prompt_logprob_rows);
  const auto stride = static_cast<size_t>((config_.length_limit() + config_.block_tokens - 1) /
                                          config_.block_tokens);
  batch.token_ids.reserve(tokens);
  batch.positions.reserve(tokens);
  batch.segments.reserve(sequences * 2);  // at most one change of form in a chunk
  batch.groups.resize(static_cast<size_t>(config_.kv_groups));
  for (model::BatchKvGroup& group : batch.groups) {
    group.slots.reserve(tokens);
    group.block_table.reserve(sequences * stride);
  }
  batch.logits_rows.reserve(rows);
  batch.sample_rows.reserve(rows);
}

void BatchBuilder::build(std::vector<StepRows>& rows, model::Batch& batch) const {
  batch.clear();
  batch.groups.resize(static_cast<size_t>(config_.kv_groups));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t first_row = batch.tokens();
    add_segments(rows[i], static_cast<int32_t>(i), batch);
    add_tokens(rows[i], batch);
    add_logits_rows(rows[i], first_row, batch);
  }
  add_block_tables(rows, batch);
}

int32_t BatchBuilder::token_at(const StepRows& rows, int32_t position) {
  const Sequence& sequence = *rows.sequence;
  const int32_t beyond = position - sequence.known();
  if (beyond < 0) return sequence.tokens[static_cast<size_t>(position)];
  if (sequence.placeholders == 0) {
    TANDEM_CHECK(beyond < rows.drafts);
    return sequence.drafts[static_cast<size_t>(beyond)];
  }
  TANDEM_CHECK(beyond == 0 && sequence.sample_row >= 0);
  return ~sequence.sample_row;
}

void BatchBuilder::add_tokens(const StepRows& rows, model::Batch& batch) const {
  const Sequence& sequence = *rows.sequence;
  for (int32_t p = rows.start; p < rows.start + rows.count; ++p) {
    batch.token_ids.push_back(token_at(rows, p));
    batch.positions.push_back(p);
    const int64_t block = sequence.blocks[static_cast<size_t>(p / config_.block_tokens)];
    const int64_t slot =
        p < sequence.shared ? -1 : block * config_.block_tokens + p % config_.block_tokens;
    for (model::BatchKvGroup& group : batch.groups) group.slots.push_back(slot);
  }
}

void BatchBuilder::add_segments(const StepRows& rows,
                                int32_t table_row,
                                model::Batch& batch) const {
  const Sequence& sequence = *rows.sequence;
  const int32_t end = rows.start + rows.count;
  const int32_t expanded = config_.form.expanded_rows(sequence.prompt_length());
  for (int32_t from = rows.start; from < end;) {
    const int32_t to = from < expanded ? std::min(end, expanded) : end;
    batch.segments.push_back({.sequence = table_row,
                              .first_row = batch.tokens() + (from - rows.start),
                              .rows = to - from,
                              .first_position = from,
                              .form = config_.form.form(from, sequence.prompt_length()),
                              .adapter = sequence.request->request.adapter});
    from = to;
  }
}

void BatchBuilder::add_logits_rows(StepRows& rows, int32_t first_row, model::Batch& batch) const {
  const Sequence& sequence = *rows.sequence;
  const SamplingParams& params = sequence.request->request.sampling;
  rows.first_prompt_row = batch.rows();
  for (int32_t p = rows.prompt_rows_begin; p < rows.prompt_rows_end; ++p) {
    batch.logits_rows.push_back(first_row + (p - rows.start));
    append_forced_row(
        sequence.tokens[static_cast<size_t>(p) + 1], params.prompt_top_logprobs, batch);
  }
  rows.sample_row = -1;
  if (!rows.samples) return;
  rows.sample_row = batch.rows();
  const std::span<const int32_t> drafts(sequence.drafts);
  for (int32_t i = 0; i <= rows.drafts; ++i) {
    batch.logits_rows.push_back(first_row + rows.count - 1 - rows.drafts + i);
    sequence.sampling.append_row(
        {.output = sequence.output(),
         .drafts = drafts.first(static_cast<size_t>(i)),
         .output_count = sequence.output_count() + sequence.placeholders + i,
         .choice = sequence.choice,
         .position = sequence.length() + i},
        batch);
  }
}

void BatchBuilder::add_block_tables(const std::vector<StepRows>& rows, model::Batch& batch) const {
  size_t stride = 0;
  for (const StepRows& r : rows) stride = std::max(stride, r.sequence->blocks.size());
  for (model::BatchKvGroup& group : batch.groups) {
    group.block_table_stride = static_cast<int32_t>(stride);
    group.block_table.assign(rows.size() * stride, kv::kNoBlock);
    for (size_t i = 0; i < rows.size(); ++i)
      std::copy(rows[i].sequence->blocks.begin(),
                rows[i].sequence->blocks.end(),
                group.block_table.begin() + static_cast<int64_t>(i * stride));
  }
}

}  // namespace tandem::engine
