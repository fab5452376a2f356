#pragma once
// Softmax attention of one query over a context, in the order of "same answer" 2: splits of
// kAttentionSplit tokens at absolute positions, each with its own maximum, merged in order.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/host/run_context.h"
#include "kernels/reference/math.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

// Scratch of `width` values.
struct SoftmaxScratch {
  float* scores;  // [kAttentionSplit]
  float* part;    // [width]
};

// out = sum of softmax(scores) * values over positions [0, context). score(p): already scaled.
// value(p): pointer to `width` floats.
template <class Score, class Value>
void softmax_attention(
    int64_t context, int64_t width, Score score, Value value, SoftmaxScratch scratch, float* out) {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::fill_n(out, width, 0.0f);
  for (int64_t begin = 0; begin < context; begin += kAttentionSplit) {
    const int64_t count = std::min<int64_t>(kAttentionSplit, context - begin);
    float part_maximum = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < count; ++i) {
      scratch.scores[i] = score(begin + i);
      part_maximum = std::max(part_maximum, scratch.scores[i]);
    }
    float part_sum = 0;
    std::fill_n(scratch.part, width, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      const float weight = std::exp(scratch.scores[i] - part_maximum);
      part_sum += weight;
      add_scaled(weight, value(begin + i), width, scratch.part);
    }
    const float merged = std::max(maximum, part_maximum);
    const float keep = std::exp(maximum - merged);
    const float add = std::exp(part_maximum - merged);
    sum = sum * keep + part_sum * add;
    for (int64_t c = 0; c < width; ++c) out[c] = out[c] * keep + scratch.part[c] * add;
    maximum = merged;
  }
  for (int64_t c = 0; c < width; ++c) out[c] /= sum;
}

// Reads `width` values of every cache row at positions [0, context) of a sequence into
// rows [context, width]. False and a failure for an impossible block number.
inline bool gather_context(RunContext& run,
                           const RaggedBatch& batch,
                           const Segment& segment,
                           const KvLayer& cache,
                           int64_t row_in_block,
                           RowsView rows) {
  const int32_t* table = batch.block_table + int64_t{segment.sequence} * batch.block_table_stride;
  const int64_t context = int64_t{segment.first_position} + segment.rows;
  for (int64_t p = 0; p < context; ++p) {
    const int32_t block = table[p / kBlockTokens];
    if (block < 0) {
      run.fail(ErrorCode::kInternal,
               "attention: block {} in row {} of the block table",
               block,
               segment.sequence);
      return false;
    }
    const void* source = cache_row(cache, block, p % kBlockTokens, row_in_block);
    for (int64_t i = 0; i < rows.columns; ++i) {
      store(rows, p, i, load_value(cache.dtype, source, i));
    }
  }
  return true;
}

// The longest context of the batch: what scratch must hold.
inline int64_t longest_context(const RaggedBatch& batch) {
  int64_t longest = 0;
  for (int32_t i = 0; i < batch.segment_count; ++i) {
    const Segment& segment = batch.segments[i];
    longest = std::max(longest, int64_t{segment.first_position} + segment.rows);
  }
  return longest;
}

}  // namespace tandem::kernels
