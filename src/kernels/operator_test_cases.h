#pragma once
// One case of each operator: host data, and a function that runs it on any device and brings the
// outputs back. A test runs a case on two devices and compares, or computes the truth from the
// data.

#include <numeric>

#include "kernels/operator_test_util.h"

namespace tandem::kernels::testing {

// A ragged batch and its block table in host memory; must outlive the run (host_segments).
struct HostBatch {
  std::vector<Segment> segments;
  std::vector<int32_t> positions;
  std::vector<int64_t> slots;
  std::vector<int32_t> block_table;
  int32_t block_table_stride = 0;
  int32_t blocks = 0;  // of the cache, block 0 unused

  int32_t tokens() const { return static_cast<int32_t>(positions.size()); }
  // Where the cache row of a position is.
  int64_t slot(int32_t sequence, int64_t position) const {
    const size_t entry =
        static_cast<size_t>(sequence * block_table_stride + position / kBlockTokens);
    return block_table[entry] * int64_t{kBlockTokens} + position % kBlockTokens;
  }
};

struct SegmentPlan {
  int32_t first_position = 0;
  int32_t rows = 1;
  MlaForm form = MlaForm::kAbsorbed;
};

// One sequence a segment, blocks in random places.
inline HostBatch make_batch(Random& random, const std::vector<SegmentPlan>& plan) {
  HostBatch batch;
  for (const SegmentPlan& s : plan) {
    batch.block_table_stride = std::max(
        batch.block_table_stride, (s.first_position + s.rows + kBlockTokens - 1) / kBlockTokens);
  }
  const auto sequences = static_cast<int32_t>(plan.size());
  batch.block_table.resize(static_cast<size_t>(sequences * batch.block_table_stride));
  std::iota(batch.block_table.begin(), batch.block_table.end(), 1);
  std::shuffle(batch.block_table.begin(), batch.block_table.end(), random);
  batch.blocks = static_cast<int32_t>(batch.block_table.size()) + 1;
  for (int32_t i = 0; i < sequences; ++i) {
    const SegmentPlan& s = plan[static_cast<size_t>(i)];
    batch.segments.push_back({i, batch.tokens(), s.rows, s.first_position, s.form});
    for (int32_t r = 0; r < s.rows; ++r) {
      batch.positions.push_back(s.first_position + r);
      batch.slots.push_back(batch.slot(i, s.first_position + r));
    }
  }
  return batch;
}

inline RaggedBatch upload(TestDevice& device, const HostBatch& batch) {
  return {batch.tokens(),
          static_cast<int32_t>(batch.segments.size()),
          device.upload(batch.segments),
          batch.segments.data(),
          device.upload(batch.positions),
          device.upload(batch.slots),
          device.upload(batch.block_table),
          batch.block_table_stride};
}

// A cache as one row for every (block, row in block, token), tightly packed.
inline KvLayer upload_cache(TestDevice& device,
                            const HostRows& rows,
                            int32_t kv_heads,
                            int32_t head_dim,
                            int64_t rows_per_token) {
  KvLayer layer;
  layer.base = device.upload(rows, 0).data;
  layer.row_bytes = rows.columns * static_cast<int64_t>(size_of(rows.dtype));
  layer.block_stride_bytes = rows_per_token * kBlockTokens * layer.row_bytes;
  layer.dtype = rows.dtype;
  layer.kv_heads = kv_heads;
  layer.head_dim = head_dim;
  return layer;
}

inline HostRows download_cache(TestDevice& device, const KvLayer& layer, const HostRows& like) {
  return device.download({layer.base, like.dtype, like.columns, like.columns}, like.rows);
}

// Row of HostRows that holds (slot, row in block).
inline int64_t cache_index(int64_t slot, int64_t row_in_block, int64_t rows_per_token) {
  return (slot / kBlockTokens * rows_per_token + row_in_block) * kBlockTokens + slot % kBlockTokens;
}

struct HostRope {
  int32_t rotary = 0;
  bool interleaved = false;
  std::vector<float> cos;
  std::vector<float> sin;

  HostRope(int32_t positions, int32_t width, bool pairs) : rotary(width), interleaved(pairs) {
    for (int32_t p = 0; p < positions; ++p) {
      for (int32_t i = 0; i < width / 2; ++i) {
        const double angle = p * std::pow(10000.0, -2.0 * i / width);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
};

inline RopeTable upload(TestDevice& device, const HostRope& rope) {
  return {device.upload(rope.cos), device.upload(rope.sin), rope.rotary, rope.interleaved};
}

struct LinearCase {
  HostRows x;
  std::vector<WeightSource> parts;  // point into HostWeights that the test keeps
  Pairing pairing = Pairing::kConcatenate;
  std::vector<float> bias;
  Epilogue epilogue = Epilogue::kNone;
  DType out_dtype = DType::kF32;
  HostRows initial;  // for kAdd
};

inline HostRows run_linear(TestDevice& device, const LinearCase& c) {
  const PackedWeight* weight = device.pack(c.parts, c.pairing);
  const int64_t columns = c.epilogue == Epilogue::kSiluMul ? weight->n / 2 : weight->n;
  const RowsView out = c.epilogue == Epilogue::kAdd ? device.upload(c.initial)
                                                    : device.output(c.out_dtype, c.x.rows, columns);
  LinearArgs args;
  args.tokens = static_cast<int32_t>(c.x.rows);
  args.x = device.upload(c.x);
  args.weight = weight;
  args.bias = device.upload(c.bias);
  args.out = out;
  args.epilogue = c.epilogue;
  device.run_ok(&DeviceApi::linear, args);
  return device.download(out, c.x.rows);
}

struct RmsNormCase {
  HostRows x;
  HostRows delta;  // rows == 0: none
  std::vector<float> weight;
  float eps = 1e-6f;
  DType out_dtype = DType::kF32;
};

struct RmsNormResult {
  HostRows x;
  HostRows out;
};

inline RmsNormResult run_rms_norm(TestDevice& device, const RmsNormCase& c) {
  RmsNormArgs args;
  args.tokens = static_cast<int32_t>(c.x.rows);
  args.x = device.upload(c.x);
  if (c.delta.rows > 0) args.delta = device.upload(c.delta);
  args.weight = device.upload(c.weight);
  args.eps = c.eps;
  args.out = device.output(c.out_dtype, c.x.rows, c.x.columns);
  device.run_ok(&DeviceApi::rms_norm, args);
  return {device.download(args.x, c.x.rows), device.download(args.out, c.x.rows)};
}

struct RopeAppendCase {
  HostBatch batch;
  int32_t heads = 1;
  int32_t kv_heads = 1;
  int32_t head_dim = 8;
  HostRows qkv;
  std::vector<float> q_norm;
  std::vector<float> k_norm;
  HostRope rope{0, 0, false};
  HostRows cache;  // [blocks * 2 kv_heads * kBlockTokens, head_dim]
};

struct AppendResult {
  HostRows q;
  HostRows cache;
};

inline AppendResult run_rope_append(TestDevice& device, const RopeAppendCase& c) {
  RopeAppendArgs args;
  args.batch = upload(device, c.batch);
  args.qkv = device.upload(c.qkv);
  args.heads = c.heads;
  args.q_norm = device.upload(c.q_norm);
  args.k_norm = device.upload(c.k_norm);
  args.eps = 1e-6f;
  args.rope = upload(device, c.rope);
  args.q = device.output(device.activation(), c.qkv.rows, int64_t{c.heads} * c.head_dim);
  args.cache = upload_cache(device, c.cache, c.kv_heads, c.head_dim, 2 * c.kv_heads);
  device.run_ok(&DeviceApi::rope_append, args);
  return {device.download(args.q, c.qkv.rows), download_cache(device, args.cache, c.cache)};
}

struct AttendCase {
  HostBatch batch;
  int32_t heads = 1;
  int32_t kv_heads = 1;
  int32_t head_dim = 8;
  HostRows q;
  HostRows cache;  // as in RopeAppendCase
  float scale = 1;
};

inline HostRows run_attend(TestDevice& device, const AttendCase& c) {
  AttendArgs args;
  args.batch = upload(device, c.batch);
  args.q = device.upload(c.q);
  args.heads = c.heads;
  args.scale = c.scale;
  args.cache = upload_cache(device, c.cache, c.kv_heads, c.head_dim, 2 * c.kv_heads);
  args.out = device.output(device.activation(), c.q.rows, c.q.columns);
  device.run_ok(&DeviceApi::attend, args);
  return device.download(args.out, c.q.rows);
}

struct MlaAppendCase {
  HostBatch batch;
  MlaShape shape;
  HostRows q;
  HostRows kv;
  std::vector<float> latent_norm;
  HostRope rope{0, 0, true};
  HostRows cache;  // [blocks * kBlockTokens, latent + rope]
};

inline AppendResult run_mla_rope_append(TestDevice& device, const MlaAppendCase& c) {
  MlaRopeAppendArgs args;
  args.batch = upload(device, c.batch);
  args.shape = c.shape;
  args.q = device.upload(c.q);
  args.kv = device.upload(c.kv);
  args.latent_norm = device.upload(c.latent_norm);
  args.eps = 1e-6f;
  args.rope = upload(device, c.rope);
  args.q_out = device.output(device.activation(), c.q.rows, c.q.columns);
  args.cache = upload_cache(device, c.cache, 1, 0, 1);
  device.run_ok(&DeviceApi::mla_rope_append, args);
  return {device.download(args.q_out, c.q.rows), download_cache(device, args.cache, c.cache)};
}

struct MlaAttendCase {
  HostBatch batch;
  MlaShape shape;
  HostWeight kv_b;
  DType storage = DType::kF32;
  HostRows q;
  HostRows cache;
  float scale = 1;
};

inline HostRows run_mla_attend(TestDevice& device, const MlaAttendCase& c) {
  MlaAttendArgs args;
  args.batch = upload(device, c.batch);
  args.weights = device.pack_mla(c.kv_b, c.shape, c.storage);
  args.q = device.upload(c.q);
  args.scale = c.scale;
  args.cache = upload_cache(device, c.cache, 1, 0, 1);
  args.out = device.output(device.activation(), c.q.rows, int64_t{c.shape.heads} * c.shape.value);
  device.run_ok(&DeviceApi::mla_attend, args);
  return device.download(args.out, c.q.rows);
}

struct RouteCase {
  HostRows logits;
  std::vector<float> bias;
  RouteSpec spec;
};

struct RouteResult {
  std::vector<int32_t> ids;  // [tokens, top_k]
  std::vector<float> weights;
};

inline RouteResult run_route(TestDevice& device, const RouteCase& c) {
  const auto count = static_cast<size_t>(c.logits.rows * c.spec.top_k);
  RouteArgs args;
  args.tokens = static_cast<int32_t>(c.logits.rows);
  args.logits = device.upload(c.logits);
  args.bias = device.upload(c.bias);
  args.spec = c.spec;
  args.expert_ids = device.upload(std::vector<int32_t>(count));
  args.weights = device.upload(std::vector<float>(count));
  device.run_ok(&DeviceApi::route, args);
  return {device.download(args.expert_ids, count), device.download(args.weights, count)};
}

struct ExpertsCase {
  HostRows x;
  int32_t top_k = 1;
  std::vector<HostWeight> gate;
  std::vector<HostWeight> up;
  std::vector<HostWeight> down;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

inline HostRows run_experts(TestDevice& device, const ExpertsCase& c) {
  std::vector<PackedWeight> gate_up;
  std::vector<PackedWeight> down;
  for (size_t e = 0; e < c.gate.size(); ++e) {
    gate_up.push_back(*device.pack({c.gate[e].source(), c.up[e].source()}, Pairing::kGateUp));
    down.push_back(*device.pack({c.down[e].source()}));
  }
  const PackedExperts experts{static_cast<int32_t>(gate_up.size()), gate_up.data(), down.data()};
  ExpertsArgs args;
  args.tokens = static_cast<int32_t>(c.x.rows);
  args.top_k = c.top_k;
  args.x = device.upload(c.x);
  args.expert_ids = device.upload(c.ids);
  args.weights = device.upload(c.weights);
  args.experts = &experts;
  args.out = device.output(DType::kF32, c.x.rows, c.x.columns);
  device.run_ok(&DeviceApi::experts, args);
  return device.download(args.out, c.x.rows);
}

struct SampleCase {
  HostRows logits;
  std::vector<SampleRow> rows;
  std::vector<int32_t> bias_ids;
  std::vector<float> bias_values;
  std::vector<HistoryEntry> history;
  std::vector<uint32_t> masks;
  int32_t max_top_logprobs = 0;
};

struct SampleOutput {
  std::vector<SampleResult> results;
  std::vector<int32_t> ids;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
};

inline SampleOutput run_sample(TestDevice& device, const SampleCase& c) {
  const size_t rows = c.rows.size();
  const size_t top = rows * static_cast<size_t>(c.max_top_logprobs);
  SampleArgs args;
  args.rows = static_cast<int32_t>(rows);
  args.logits = device.upload(c.logits);
  args.row = device.upload(c.rows);
  args.host_row = c.rows.data();
  args.bias_ids = device.upload(c.bias_ids);
  args.bias_values = device.upload(c.bias_values);
  args.history = device.upload(c.history);
  args.masks = device.upload(c.masks);
  args.mask_words = static_cast<int32_t>((c.logits.columns + 31) / 32);
  args.max_top_logprobs = c.max_top_logprobs;
  args.result = device.upload(std::vector<SampleResult>(rows));
  args.ids = device.upload(std::vector<int32_t>(rows));
  args.top_ids = device.upload(std::vector<int32_t>(top));
  args.top_logprobs = device.upload(std::vector<float>(top));
  device.run_ok(&DeviceApi::sample, args);
  return {device.download(args.result, rows),
          device.download(args.ids, rows),
          top ? device.download(args.top_ids, top) : std::vector<int32_t>{},
          top ? device.download(args.top_logprobs, top) : std::vector<float>{}};
}

}  // namespace tandem::kernels::testing
