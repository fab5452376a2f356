#pragma once
// Softmax attention over the paged cache, for grouped queries and for both forms of MLA.
//
// The context of a row is cut at absolute positions: tiles of 64 tokens (a block of the cache)
// inside splits of kAttentionSplit tokens. A split's partial (maximum, sum, accumulator) walks its
// tiles in order, and the partials of a row are merged in order, whoever computes them. Nothing
// else of the batch enters a row's arithmetic.

#include "kernels/cpu/common/packed_layout.h"

namespace tandem::kernels::cpu {

struct AttentionJob {
  RaggedBatch batch;
  // Rows of the batch that take part, and of them the segments of one form.
  int32_t first_token = 0;
  int32_t end_token = 0;
  MlaForm form = MlaForm::kAbsorbed;
  bool any_form = false;  // GQA
  bool is_mla = false;    // one key row for all heads, holding the values too

  KvLayer cache;
  float scale = 0;
  int32_t heads = 0;
  int32_t dims = 0;         // width of a query
  int32_t value_dims = 0;   // width of a result
  int32_t heads_a_key = 1;  // GQA: query heads that share a kv head
  // Head h of row t: row t - q_first_token, columns from h * dims on.
  RowsView q;
  int32_t q_first_token = 0;
  // Head h of row t: row t - out_first_token, columns from h * out_head_columns on. May be q's
  // place when results are no wider than queries.
  RowsView out;
  int32_t out_first_token = 0;
  int32_t out_head_columns = 0;
  // Expanded form: keys and values are made from the cache's latents with these.
  const MlaWeights* expand = nullptr;
};

// Member 0; segments of other forms are left alone. Fails the operator for impossible blocks.
void run_attention(RunContext& context, const AttentionJob& job);

}  // namespace tandem::kernels::cpu
