#include "kernels/cpu/common/attention_tile.h"

#include <cstring>
#include <limits>

#include "kernels/cpu/common/mla_layout.h"

namespace tandem::kernels::cpu {

int64_t TileScratch::floats(const AttentionJob& job, int32_t vectors) {
  int64_t count = vectors * round_up(job.dims, 16) + int64_t{job.dims} * kPanel +
                  int64_t{kMaxTaskRows} * kPanel + int64_t{kPanel} * kPanel;
  if (job.expand) {
    const MlaShape& shape = job.expand->shape;
    count += int64_t{shape.latent + shape.rope} * kPanel;
    count += kPanel * AttentionState::stride(job) + PanelScratch::kFloats;
  }
  return round_up(count, 16);
}

TileScratch::TileScratch(const AttentionJob& job, int32_t vectors, float* memory) {
  const auto take = [&](int64_t count) {
    float* at = memory;
    memory += count;
    return at;
  };
  queries = take(vectors * round_up(job.dims, 16));
  keys = take(int64_t{job.dims} * kPanel);
  scores = take(int64_t{kMaxTaskRows} * kPanel);
  value_chunk = take(int64_t{kPanel} * kPanel);
  latent_turned = nullptr;
  values = nullptr;
  panels = nullptr;
  if (!job.expand) return;
  const MlaShape& shape = job.expand->shape;
  latent_turned = take(int64_t{shape.latent + shape.rope} * kPanel);
  values = take(kPanel * AttentionState::stride(job));
  panels = take(PanelScratch::kFloats);
}

void TileMaker::load_queries(const AttentionItem& item, const TileScratch& scratch) const {
  for (int32_t v = 0; v < item.vectors(); ++v) {
    const int64_t row =
        int64_t{item.segment->first_row} + item.row + v / item.heads - job_.q_first_token;
    const int64_t index = row * job_.q.stride + int64_t{item.head + v % item.heads} * job_.dims;
    float* out = scratch.queries + v * round_up(job_.dims, 16);
    if (job_.q.dtype == DType::kBF16) {
      kernels_.widen_bf16(static_cast<const uint16_t*>(job_.q.data) + index, out, job_.dims);
    } else {
      std::copy_n(static_cast<const float*>(job_.q.data) + index, job_.dims, out);
    }
  }
}

const char* TileMaker::cache_block(const AttentionItem& item, int64_t tile) const {
  const int64_t row = int64_t{item.segment->sequence} * job_.batch.block_table_stride;
  return static_cast<const char*>(job_.cache.base) +
         job_.batch.block_table[row + tile] * job_.cache.block_stride_bytes;
}

// Keys of the tile, turned, and values for the latents in `rows`.
void TileMaker::expand_tile(const AttentionItem& item,
                            const char* rows,
                            int tokens,
                            const TileScratch& scratch) const {
  const MlaWeights& weights = *job_.expand;
  const MlaShape& shape = weights.shape;
  const MlaLayout layout(shape, weights.dtype);
  const bool bf16 = job_.cache.dtype == DType::kBF16;
  const int width = shape.latent + shape.rope;
  const PanelScratch panels(scratch.panels);
  kernels_.transpose_keys(rows, job_.cache.row_bytes, bf16, tokens, width, scratch.latent_turned);

  // Keys: rows of W_UK times the turned latents, which are a panel of 64 tokens.
  PanelTask task;
  task.k = shape.latent;
  task.x_scratch = panels.x;
  task.w_scratch = panels.w;
  const void* x[kMaxTaskRows];
  task.x = x;
  task.x_is_bf16 = weights.dtype == DType::kBF16;
  task.panel[0].data = scratch.latent_turned;
  for (int32_t d = 0; d < shape.nope; d += kMaxTaskRows) {
    task.rows = std::min(kMaxTaskRows, shape.nope - d);
    for (int r = 0; r < task.rows; ++r) x[r] = layout.expanded_row(weights, item.head, d + r);
    task.totals = scratch.keys + int64_t{d} * kPanel;
    kernels_.multiply(task);
  }
  std::copy_n(scratch.latent_turned + int64_t{shape.latent} * kPanel,
              int64_t{shape.rope} * kPanel,
              scratch.keys + int64_t{shape.nope} * kPanel);

  // Values: the latents times the panels of W_UV.
  const int64_t stride = AttentionState::stride(job_);
  void* out[kPanel];
  task.rows = tokens;
  for (int t = 0; t < tokens; ++t) x[t] = rows + t * job_.cache.row_bytes;
  task.x_is_bf16 = bf16;
  task.totals = panels.totals;
  for (int64_t p = 0; p < layout.value_panels; ++p) {
    task.panel[0] = layout.uv_panel(weights, item.head, p);
    kernels_.multiply(task);
    for (int t = 0; t < tokens; ++t) out[t] = scratch.values + t * stride + p * kPanel;
    FinishTask finish;
    finish.rows = tokens;
    finish.columns = kPanel;
    finish.totals = panels.totals;
    finish.out = out;
    kernels_.finish(finish);
  }
}

void TileMaker::load_tile(const AttentionItem& item,
                          int64_t tile,
                          int tokens,
                          const TileScratch& scratch,
                          AttendTile& out) const {
  const KvLayer& cache = job_.cache;
  const bool bf16 = cache.dtype == DType::kBF16;
  const char* block = cache_block(item, tile);
  out.keys = scratch.keys;
  if (job_.expand) {
    expand_tile(item, block, tokens, scratch);
    out.values = scratch.values;
    out.value_stride_bytes = AttentionState::stride(job_) * int64_t{sizeof(float)};
    out.values_are_bf16 = false;
    return;
  }
  const int64_t kv_head = job_.is_mla ? 0 : item.head / job_.heads_a_key;
  const int64_t head_bytes = kBlockTokens * cache.row_bytes;
  const char* keys = block + kv_head * head_bytes;
  out.values = job_.is_mla ? keys : keys + cache.kv_heads * head_bytes;
  out.value_stride_bytes = cache.row_bytes;
  out.values_are_bf16 = bf16;
  kernels_.transpose_keys(keys, cache.row_bytes, bf16, tokens, job_.dims, scratch.keys);
}

void TileMaker::run_split(const AttentionItem& item,
                          int64_t split,
                          const TileScratch& scratch,
                          const AttentionState& state) const {
  const int32_t vectors = item.vectors();
  std::fill_n(state.maximum, vectors, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, vectors, 0.0f);
  std::fill_n(state.acc, vectors * state.acc_stride, 0.0f);
  constexpr int64_t kTiles = kAttentionSplit / kBlockTokens;
  const int64_t end = std::min((split + 1) * kTiles, item.last_position() / kBlockTokens + 1);
  for (int64_t tile = split * kTiles; tile < end; ++tile) {
    const auto visible_to = [&](int32_t vector) {
      const int64_t visible = item.position(vector) + 1 - tile * kBlockTokens;
      return static_cast<int32_t>(std::clamp<int64_t>(visible, 0, kBlockTokens));
    };
    AttendTile task;
    load_tile(item, tile, visible_to(vectors - 1), scratch, task);
    task.dims = job_.dims;
    task.value_dims = job_.value_dims;
    task.scale = job_.scale;
    task.acc_stride = state.acc_stride;
    task.scores = scratch.scores;
    task.value_scratch = scratch.value_chunk;
    for (int32_t first = 0; first < vectors; first += kMaxTaskRows) {
      const float* q[kMaxTaskRows];
      int32_t visible[kMaxTaskRows];
      task.rows = std::min(kMaxTaskRows, vectors - first);
      for (int r = 0; r < task.rows; ++r) {
        q[r] = scratch.queries + (first + r) * round_up(job_.dims, 16);
        visible[r] = visible_to(first + r);
      }
      task.q = q;
      task.visible = visible;
      task.maximum = state.maximum + first;
      task.sum = state.sum + first;
      task.acc = state.acc + first * state.acc_stride;
      kernels_.attend_tile(task);
    }
  }
}

void TileMaker::merge(const AttentionItem& item,
                      int64_t split,
                      const AttentionState& partial,
                      const AttentionState& merged) const {
  for (int32_t v = 0; v < item.vectors(); ++v) {
    if (item.position(v) < split * kAttentionSplit) continue;
    const float* acc = partial.acc + v * partial.acc_stride;
    float* onto = merged.acc + v * merged.acc_stride;
    if (split == 0) {
      merged.maximum[v] = partial.maximum[v];
      merged.sum[v] = partial.sum[v];
      std::copy_n(acc, job_.value_dims, onto);
    } else {
      kernels_.merge_partial(&merged.maximum[v],
                             &merged.sum[v],
                             onto,
                             partial.maximum[v],
                             partial.sum[v],
                             acc,
                             job_.value_dims);
    }
  }
}

void TileMaker::finish(const AttentionItem& item, const AttentionState& merged) const {
  const bool bf16 = job_.out.dtype == DType::kBF16;
  for (int32_t v = 0; v < item.vectors(); ++v) {
    const int64_t row =
        int64_t{item.segment->first_row} + item.row + v / item.heads - job_.out_first_token;
    const int64_t index =
        row * job_.out.stride + int64_t{item.head + v % item.heads} * job_.out_head_columns;
    void* out = static_cast<char*>(job_.out.data) + index * bytes_of(job_.out.dtype);
    kernels_.finish_attention(
        merged.acc + v * merged.acc_stride, merged.sum[v], job_.value_dims, out, bf16);
  }
}

}  // namespace tandem::kernels::cpu
