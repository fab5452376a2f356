#pragma once
// C++20 (shared with .cu)
// The arguments and contracts of the operators: everything above this floor speaks to a device
// through these.
//
// Common to all:
// - A step is a ragged batch: `tokens` rows, cut into segments (runs of rows of one sequence).
// - Pointers are device memory of the device that runs the operator, valid until the stream has
// passed it.
//   Structs are copied at submission; what they point to is not.
// - Activation type A is float32 or bfloat16. Rounding to A is to nearest even and happens only
// when an output of
//   type A is written. All sums, norms, softmax and routing are float32.
// - Outputs do not overlap inputs unless the operator says so.
// - A row's result depends on that row, its sequence's cache and the weights alone: never on the
// other rows, on how
//   a prompt was cut into chunks or on the number of threads ("same answer").

#include <cstddef>
#include <cstdint>

#include "kernels/weight.h"
#include "tensor/tensor_view.h"

namespace tandem::kernels {

using tensor::DType;
using tensor::RowsView;
using tensor::TensorView;

constexpr int32_t kBlockTokens = 64;      // tokens in a KV block, every group
constexpr int32_t kAttentionSplit = 512;  // context tokens whose partial softmax is merged in order

// MLA computes a row in one of two forms that round differently (DESIGN "same answer" 5).
enum class MlaForm : int32_t { kAbsorbed = 0, kExpanded = 1 };

// Rows [first_row, first_row + rows) of the batch: positions first_position + 0, 1, … of one
// sequence. Row r sees cache positions 0 … first_position + r, all of them already appended.
struct Segment {
  int32_t sequence = 0;  // row of the block table
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t first_position = 0;
  MlaForm form = MlaForm::kAbsorbed;
  int32_t adapter = 0;  // 0 = none
};

// What every attention operator needs to know of the step.
struct RaggedBatch {
  int32_t tokens = 0;
  int32_t segment_count = 0;
  const Segment* segments = nullptr;       // [segment_count], by first_row, covering [0, tokens)
  const Segment* host_segments = nullptr;  // the same, readable by the submitting thread
  const int32_t* positions = nullptr;      // [tokens]
  const int64_t* slots = nullptr;  // [tokens] block * kBlockTokens + offset; -1 = do not append
  const int32_t* block_table = nullptr;  // [sequences, block_table_stride] block numbers
  int32_t block_table_stride = 0;
};

// One layer of a KV pool: the row of (block, token) is at base + block * block_stride + token *
// row_bytes. MLA row: latent, then rotary, contiguous. GQA: inside a block [K|V][kv
// head][token][dim], row_bytes = one head's row. dtype kF32 or kBF16.
struct KvLayer {
  void* base = nullptr;
  int64_t block_stride_bytes = 0;
  int64_t row_bytes = 0;
  DType dtype = DType::kBF16;
  int32_t kv_heads = 1;
  int32_t head_dim = 0;  // GQA
};

// Tables [positions, rotary / 2] of cos and sin (already times the model's factor).
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int32_t rotary = 0;        // rotated width
  bool interleaved = false;  // pairs (2i, 2i+1) instead of (i, i + rotary / 2)
};

// out[t] = table[id]. id >= 0: itself; id < 0: previous_ids[~id], a token that the step before
// sampled.
struct EmbedArgs {
  int32_t tokens = 0;
  const int32_t* ids = nullptr;           // [tokens]
  const int32_t* previous_ids = nullptr;  // may be null when no id is negative
  TensorView table;                       // [vocabulary, hidden] kF32, kF16 or kBF16
  RowsView out;                           // [tokens, hidden] kF32
};

// If delta.data: x += delta, written back. Then out = x / sqrt(mean(x^2) + eps) * weight.
// out may be x itself when out is kF32.
struct RmsNormArgs {
  int32_t tokens = 0;
  RowsView x;                     // [tokens, n] kF32, in and out
  RowsView delta;                 // [tokens, n] kF32, or data == null
  const float* weight = nullptr;  // [n]
  float eps = 0;
  RowsView out;  // [tokens, n] A or kF32; data == null: only the addition
};

enum class Epilogue : int32_t {
  kNone = 0,
  kAdd = 1,      // out += result, out kF32
  kSiluMul = 2,  // Pairing::kGateUp: out[:, i] = silu(gate_i) * up_i, n / 2 columns
};

// out = epilogue(x . weight^T + bias), summed as kKPartition says; rounded once, at the end.
struct LinearArgs {
  int32_t tokens = 0;
  RowsView x;                            // [tokens, k] A or kF32
  const PackedWeight* weight = nullptr;  // host memory, stable until the stream has passed
  const float* bias = nullptr;           // [n] or null
  RowsView out;                          // A or kF32
  Epilogue epilogue = Epilogue::kNone;
};

// GQA: optional RMS norm per head of q and k, rotation of both, append of k and v to the cache.
struct RopeAppendArgs {
  RaggedBatch batch;
  RowsView qkv;  // [tokens, (heads + 2 kv_heads) * head_dim] kF32: q | k | v
  int32_t heads = 0;
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  float eps = 0;
  RopeTable rope;
  RowsView q;  // out: [tokens, heads * head_dim] A
  KvLayer cache;
};

// out[t, h] = softmax(scale q . K^T) V over positions 0 … position(t); heads / kv_heads queries
// share a kv head.
struct AttendArgs {
  RaggedBatch batch;
  RowsView q;  // [tokens, heads * head_dim] A
  int32_t heads = 0;
  float scale = 0;
  KvLayer cache;
  RowsView out;  // [tokens, heads * head_dim] A
};

// MLA: norm of the latent, rotation of the queries' and the key's rotary part, append.
// Cache row = [latent normed | rotated key], rounded to the cache's type.
struct MlaRopeAppendArgs {
  RaggedBatch batch;
  MlaShape shape;
  RowsView q;                          // [tokens, heads * (nope + rope)] kF32: per head nope | rope
  RowsView kv;                         // [tokens, latent + rope] kF32
  const float* latent_norm = nullptr;  // [latent]
  float eps = 0;
  RopeTable rope;
  RowsView q_out;  // as q, A
  KvLayer cache;
};

// Absorbed: q_latent = q_nope . W_UK; scores over the cache's rows; o_latent . W_UV. Expanded: keys
// and values of the context through W_UK, W_UV, then plain attention. Inner values are float32.
struct MlaAttendArgs {
  RaggedBatch batch;
  const MlaWeights* weights = nullptr;  // host memory, stable until the stream has passed
  RowsView q;                           // [tokens, heads * (nope + rope)] A
  float scale = 0;
  KvLayer cache;
  RowsView out;  // [tokens, heads * value] A
};

enum class RouterScoring : int32_t { kSigmoid = 0, kSoftmax = 1 };
enum class GroupScore : int32_t { kNone = 0, kMax = 1, kTopTwoSum = 2 };

// Expert choice (DeepSeek-V2 and -V3 technical reports; golden README "Router").
struct RouteSpec {
  int32_t experts = 0;
  int32_t top_k = 0;
  int32_t groups = 1;
  int32_t top_groups = 1;
  RouterScoring scoring = RouterScoring::kSigmoid;
  GroupScore group_score = GroupScore::kNone;
  bool renormalize = false;  // weights / (their sum + 1e-20)
  float factor = 1.0f;       // routed_scaling_factor
  // What experts of groups that were not chosen count as: V3 -inf, V2 0.
  float masked_score = 0.0f;
  // Random weights (--load-format dummy): experts spread evenly by token row instead, so that speed
  // is honest: slot s of row t is expert (t * top_k + s) % experts, weight factor / top_k.
  bool uniform = false;
};

// Ties: the lowest index. Slots in descending order of the biased score.
struct RouteArgs {
  int32_t tokens = 0;
  RowsView logits;              // [tokens, experts] kF32
  const float* bias = nullptr;  // [experts], for choosing only, or null
  RouteSpec spec;
  int32_t* expert_ids = nullptr;  // out [tokens, top_k]
  float* weights = nullptr;       // out [tokens, top_k]
};

// out[t] = sum over slots s in order of weights[t, s] * down_e(silu(gate_e x) * up_e x), e =
// expert_ids[t, s]. The inner product silu * up is rounded to A; the sum is float32, from 0 in
// order of slots: total = fma(weight, down, total).
struct ExpertsArgs {
  int32_t tokens = 0;
  int32_t top_k = 0;
  RowsView x;  // [tokens, hidden] A
  const int32_t* expert_ids = nullptr;
  const float* weights = nullptr;
  const PackedExperts* experts = nullptr;  // host memory, stable until the stream has passed
  RowsView out;                            // [tokens, hidden] kF32
};

// out[i] = source[rows[i]]: the rows whose logits are wanted.
struct GatherRowsArgs {
  int32_t count = 0;
  const int32_t* rows = nullptr;  // [count]
  RowsView source;                // kF32 or A
  RowsView out;                   // same type
};

}  // namespace tandem::kernels
